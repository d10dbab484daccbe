"""Copy a layer with its weights as plain numbers, if they are offloaded, packed or spread over
processes.

The model runs unchanged. Code that reads weights gets a copy of one module, and the checks of the
recording compare that copy with the activations of the model.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Hashable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from mixlens.errors import UnsupportedModel
from mixlens.model.distributed import is_spread, kept_copy, whole
from mixlens.model.module_walk import copied, parts_of, tensors_in, tensors_of
from mixlens.model.packed_weights import (
    RunAsIs,
    has_packed_weights,
    is_packed,
    linear_sizes,
    read_by_application,
    unpacked,
)
from mixlens.model.placement import (
    all_hooks,
    device_of_calls,
    free_memory,
    raise_if_out_of_memory,
    stored_weights,
)
from mixlens.model.session import numbers_of


def make_readable(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Return a module with readable weights: itself, or a copy if they are offloaded, packed or
    spread over processes. `dtype` is that of its inputs.
    """
    if has_plain_weights(module):
        return module
    if has_spread_weights(module):
        device = next(iter(tensors_of(module))).device
        return kept_copy(module, partial(_with_weights, dtype=dtype), lambda: free_memory(device))
    return _last_copy(module, dtype, numbers_of(module))


def has_plain_weights(module: nn.Module) -> bool:
    """Return whether every weight is available in this process, and not packed."""
    parts = parts_of(module)
    if any(each.is_meta or is_spread(each) for each in tensors_in(parts, buffers=False)):
        return False
    return not any(map(has_packed_weights, parts))


def has_spread_weights(module: nn.Module) -> bool:
    """Return whether other processes have parts of some weights."""
    return any(map(is_spread, tensors_of(module, buffers=False)))


@functools.lru_cache(maxsize=1)  # one layer at a time: more may not fit
def _last_copy(module: nn.Module, dtype: torch.dtype, numbers: Hashable) -> nn.Module:
    return _with_weights(module, dtype)


def _with_weights(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    hooks = itertools.chain.from_iterable(map(all_hooks, parts_of(module)))
    known: dict[int, Any] = {id(hook): hook for hook in hooks}  # shared: they hold everything
    known |= _readable(module, dtype)
    for place, (hook, name) in stored_weights(module).items():
        weight = hook.weights_map[name].to(hook.execution_device)
        known.setdefault(place, _parameter(weight))
    made = copied(module, known)
    for part in made.modules():
        for name in ("forward", "_old_forward", "_hf_hook"):
            vars(part).pop(name, None)
        if vars(part).get("_is_expert_parallel"):  # transformers noted its own experts alone
            vars(part)["_is_expert_parallel"] = False
            vars(part)["num_experts"] = len(next(part.parameters()))
    if any(parameter.is_meta for parameter in made.parameters()):
        raise UnsupportedModel(
            "some weights are offloaded (on the meta device), and accelerate does not "
            "provide their location. Load the model without offload"
        )
    return made


def _parameter(weight: Tensor) -> nn.Parameter:
    return nn.Parameter(weight, requires_grad=False)


def _readable(module: nn.Module, dtype: torch.dtype) -> dict[int, Any]:
    """Return the replacements (by id) of spread or packed weights, or of modules that hold them."""
    spread = filter(is_spread, module.parameters(recurse=False))
    known: dict[int, Any] = {id(weight): _parameter(whole(weight)) for weight in spread}
    if has_packed_weights(module):
        known |= _readable_part(module, dtype)
    if id(module) not in known:
        for part in module.children():
            known |= _readable(part, dtype)
    return known


def _readable_part(part: nn.Module, dtype: torch.dtype) -> dict[int, Any]:
    if linear_sizes(part) is not None:
        device = device_of_calls(part) or next(each.device for each in tensors_of(part))
        try:
            return {id(part): read_by_application(part, dtype, device)}
        except Exception as error:
            raise_if_out_of_memory(error)  # a module that takes other arguments runs as it is
    packed = [weight for weight in part.parameters(recurse=False) if is_packed(weight)]
    plain = {id(weight): unpacked(weight) for weight in packed}
    return plain if None not in plain.values() else {id(part): RunAsIs(part, dtype)}
