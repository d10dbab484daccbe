"""Read offloaded, packed or distributed weights as plain tensors. The model itself runs unchanged.
Code that needs weights gets a copy of one module, and the recording checks that this copy
reproduces the model's activations.

A module that quantises only its weights is an affine map, no matter which library packed them. Its
matrix is computed from its outputs for the unit vectors. This is exact, because each sum has only
one non-zero term. The result is the matrix that the library's kernel uses, which may differ from
the matrix that the format describes (for example with scales in half precision).
`mixlens.model.linearity` checks that such a module is linear. Other modules with packed weights,
such as the experts of a mixture, run without changes.
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
from mixlens.model.distributed import OwnColumns, is_spread, keep_copy, keep_weight, own_columns
from mixlens.model.module_walk import as_written, copy_module, parts_of, tensors_in, tensors_of
from mixlens.model.placement import (
    all_hooks,
    device_of_calls,
    free_memory,
    raise_if_out_of_memory,
    stored_weights,
)
from mixlens.model.plain_shards import remove_exchange
from mixlens.model.session import numbers_of

_BLOCK = 512  # unit vectors at a time
_SIZES = (("in_features", "out_features"), ("nx", "nf"))


def make_readable(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Return a module whose weights can be read directly.

    This is the module itself, or a copy if its weights are offloaded, packed or spread over
    processes. `dtype` is the dtype of its inputs.
    """
    if has_plain_weights(module):
        return module
    if has_spread_weights(module):
        device = next(iter(tensors_of(module))).device
        return keep_copy(module, partial(_with_weights, dtype=dtype), lambda: free_memory(device))
    return _last_copy(module, dtype, numbers_of(module))


def own_columns_of(module: nn.Module) -> OwnColumns | None:
    """Return this process's share of the columns of a linear layer.

    Return None unless the rows are spread over processes and the columns can be divided equally.
    """
    if not has_spread_weights(module):
        return None
    device = next(iter(tensors_of(module))).device
    return own_columns(module, lambda: free_memory(device))


def has_plain_weights(module: nn.Module) -> bool:
    """Return whether every weight is available in this process and not packed."""
    parts = parts_of(module)
    if any(each.is_meta or is_spread(each) for each in tensors_in(parts, buffers=False)):
        return False
    return not any(map(has_packed_weights, parts))


def has_spread_weights(module: nn.Module) -> bool:
    """Return whether some weights are sharded across processes."""
    return any(map(is_spread, tensors_of(module, buffers=False)))


@functools.lru_cache(maxsize=1)  # one layer at a time: more may not fit
def _last_copy(module: nn.Module, dtype: torch.dtype, numbers: Hashable) -> nn.Module:
    return _with_weights(module, dtype)


def _with_weights(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    hooks = itertools.chain.from_iterable(map(all_hooks, parts_of(module)))
    replacements: dict[int, Any] = {
        id(hook): hook for hook in hooks
    }  # shared: they hold everything
    replacements |= _readable(module, dtype)
    for place, (hook, name) in stored_weights(module).items():
        weight = hook.weights_map[name].to(hook.execution_device)
        replacements.setdefault(place, _parameter(weight))
    copy = copy_module(module, replacements)
    for part in copy.modules():
        for name in ("forward", "_old_forward", "_hf_hook"):
            vars(part).pop(name, None)
        if vars(part).get("_is_expert_parallel"):  # transformers noted its own experts alone
            vars(part)["_is_expert_parallel"] = False
            vars(part)["num_experts"] = len(next(part.parameters()))
    remove_exchange(copy)
    if any(parameter.is_meta for parameter in copy.parameters()):
        raise UnsupportedModel(
            "some weights are offloaded (on the meta device), and accelerate does not "
            "provide their location. Load the model without offloading"
        )
    return copy


def _parameter(weight: Tensor) -> nn.Parameter:
    return nn.Parameter(weight, requires_grad=False)


def _readable(module: nn.Module, dtype: torch.dtype) -> dict[int, Any]:
    """Return replacements for distributed or packed weights, or for modules with such weights, by
    the id of the replaced object.
    """
    spread = filter(is_spread, module.parameters(recurse=False))
    replacements: dict[int, Any] = {id(weight): keep_weight(weight) for weight in spread}
    if has_packed_weights(module):
        replacements |= _readable_part(module, dtype)
    if id(module) not in replacements:
        for part in module.children():
            replacements |= _readable(part, dtype)
    return replacements


def _readable_part(part: nn.Module, dtype: torch.dtype) -> dict[int, Any]:
    if linear_sizes(part) is not None:
        device = device_of_calls(part) or next(each.device for each in tensors_of(part))
        try:
            return {id(part): read_by_application(part, dtype, device)}
        except Exception as error:
            raise_if_out_of_memory(error)  # a module that takes other arguments runs as it is
    packed = [weight for weight in part.parameters(recurse=False) if is_packed(weight)]
    plain = {id(weight): unpack_weight(weight) for weight in packed}
    return plain if None not in plain.values() else {id(part): RunAsIs(part, dtype)}


def is_packed(tensor: Tensor) -> bool:
    """Return whether a weight is quantised: a tensor subclass, an integer tensor, or one byte per
    value.
    """
    if type(tensor) not in (Tensor, nn.Parameter):
        return True
    return tensor.dim() > 0 and (not _is_number(tensor.dtype) or tensor.element_size() == 1)


def _is_number(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


def linear_sizes(part: nn.Module) -> tuple[int, int] | None:
    """Return the input and output width of a linear layer, or None for other modules."""
    for names in _SIZES:
        sizes = [getattr(part, name, None) for name in names]
        if all(type(size) is int and size > 0 for size in sizes):
            return sizes[0], sizes[1]  # type: ignore[return-value]
    return None


def replaces_forward(part: nn.Module) -> bool:
    """Return whether a library replaced `forward` of this instance.

    Replacements by accelerate and torch.compile do not count, because they do not change the
    output.
    """
    attributes = vars(part)
    return (
        "forward" in attributes
        and "_hf_hook" not in attributes
        and as_written(attributes["forward"]) is None
    )


def has_packed_weights(part: nn.Module) -> bool:
    """Return whether a module's own weights (without submodules) cannot be read directly."""
    is_linear = linear_sizes(part) is not None
    tensors = tensors_in([part], buffers=is_linear)  # other modules keep ids and masks there
    if any(map(is_spread, tensors)):  # over processes
        return False
    return (is_linear and replaces_forward(part)) or any(map(is_packed, tensors))


def awaits_first_run(part: nn.Module) -> bool:
    """Return whether a linear layer has no usable weight yet.

    Some libraries unpack the weight only when the model runs for the first time.
    """
    if linear_sizes(part) is None or type(part).forward is not nn.Linear.forward:
        return False
    weight = getattr(part, "weight", None)
    return not (isinstance(weight, Tensor) and (weight.is_meta or weight.element_size() > 1))


def unpack_weight(weight: Tensor) -> nn.Parameter | None:
    """Return a tensor subclass as a plain parameter, or None if it cannot unpack itself."""
    if type(weight).dequantize is Tensor.dequantize:  # reads the packed integers as numbers
        return None
    plain = weight.dequantize()
    if type(plain) not in (Tensor, nn.Parameter) or is_packed(plain):
        return None
    return nn.Parameter(plain.detach(), requires_grad=False)


@torch.no_grad()
def read_by_application(part: nn.Module, dtype: torch.dtype, device: torch.device) -> nn.Linear:
    """Return an `nn.Linear` that is equivalent to a module for inputs of this dtype."""
    sizes = linear_sizes(part)
    assert sizes is not None
    width, outputs = sizes
    bias = _apply(part, torch.zeros(1, width, dtype=dtype, device=device))[0]
    weight = bias.new_empty(outputs, width)
    for start in range(0, width, _BLOCK):
        block = torch.arange(start, min(start + _BLOCK, width), device=device)
        units = nn.functional.one_hot(block, width).to(dtype)
        weight[:, start : start + _BLOCK] = (_apply(part, units) - bias).T
    linear = nn.Linear(width, outputs, bias=bool(bias.any()), device="meta")
    linear.weight = nn.Parameter(weight, requires_grad=False)
    if linear.bias is not None:
        linear.bias = nn.Parameter(bias, requires_grad=False)
    return linear.eval()


def _apply(part: nn.Module, vectors: Tensor) -> Tensor:
    outputs: Tensor = part(vectors[None])
    return outputs[0].detach()


class RunAsIs(nn.Module):
    """A wrapper around a module whose weights stay packed.

    Copies of a layer share this wrapper. The module runs in its own dtype.
    """

    def __init__(self, part: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self._part = (part,)  # not a submodule, so that its weights are neither cast nor copied
        self._dtype = dtype
        self.train(part.training)

    def __deepcopy__(self, memo: Any) -> RunAsIs:
        return self

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module, and return its output in the dtype of the input."""
        floats = (each for each in (*args, *kwargs.values()) if _is_float(each))
        input_dtype = next((each.dtype for each in floats), self._dtype)
        args, kwargs = _cast((args, kwargs), self._dtype)
        return _cast(self._part[0](*args, **kwargs), input_dtype)


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, tuple):
        return tuple(_cast(each, dtype) for each in value)
    if isinstance(value, dict):
        return {name: _cast(each, dtype) for name, each in value.items()}
    return value.to(dtype) if _is_float(value) else value
