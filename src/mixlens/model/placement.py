"""Find where the weights of a model are: on a device, packed (quantised), or offloaded.

accelerate keeps the weights of large models in the machine's memory or on disk and moves them to
the device for each call of a module. Between calls such a parameter is on the meta device: it has a
shape and no numbers. Quantised weights (torchao, quanto) are packed integers that act as numbers in
some products only. The model runs unchanged. Code that reads weights gets a copy of one layer with
plain numbers, and the recording's checks compare that copy with the model's activations.

The free memory of a device is measured here too.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from mixlens.errors import UnsupportedModel
from mixlens.model.distributed import is_spread, kept_copy, smallest, whole
from mixlens.model.module_walk import copied, parts_of, tensors_of


def entry_device(model: nn.Module) -> torch.device:
    """Return the device of a model's inputs."""
    first = next(model.parameters())
    if not first.is_meta:
        return first.device
    for part in model.modules():
        for hook in _hooks(part):
            if hook.execution_device is not None:
                return torch.device(hook.execution_device)
    raise _nowhere(model)


def _nowhere(model: nn.Module, stored: Mapping[int, Any] | None = None) -> UnsupportedModel:
    """Return the error for the first weights without numbers that are not offloaded either."""
    named = itertools.chain(model.named_parameters(), model.named_buffers())
    name = next(name for name, each in named if each.is_meta and id(each) not in (stored or {}))
    return UnsupportedModel(
        f"the weights `{name}` are on the meta device, without numbers. Load them"
    )


def available_to(model: nn.Module) -> int:
    """Return the bytes that a plan may use, on all devices of the model's kind. Raise if some
    weights have no numbers.
    """
    entry, weights = entry_device(model), tensors_of(model)
    devices = {weight.device for weight in weights}
    if torch.device("meta") in devices:
        stored = _stored(model)
        if any(weight.is_meta and id(weight) not in stored for weight in weights):
            raise _nowhere(model, stored)
        named = {hook.execution_device for hook, _ in stored.values()} - {None}
        devices |= {torch.empty(0, device=name).device for name in named}  # "cuda" has a number now
    kin = {device for device in devices if device.type == entry.type and device.type != "cpu"}
    return smallest(model, sum(available_memory(device) for device in kin or {entry}))


def device_of_calls(module: nn.Module) -> torch.device | None:
    """Return the device to which accelerate moves the inputs of a module, or None."""
    devices = (hook.execution_device for hook in _hooks(module))
    return next((torch.device(device) for device in devices if device is not None), None)


def is_moved(module: nn.Module) -> bool:
    """Return whether accelerate has hooks before and after calls of its submodules."""
    return any("_hf_hook" in vars(part) for part in parts_of(module))


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor on a device. A plain copy would wait for all queued work of a GPU."""
    if tensor.device.type != "cpu" or device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def at_hand(module: nn.Module) -> nn.Module:
    """Return a layer with readable weights: itself, or a copy if they are offloaded, packed or
    spread over processes.
    """
    if has_plain_weights(module):
        return module
    if has_spread_weights(module):
        return kept_copy(module, _with_weights.__wrapped__, lambda: free_memory(_device(module)))
    return _with_weights(module)


def has_spread_weights(module: nn.Module) -> bool:
    """Return whether other processes have parts of some weights."""
    return any(map(is_spread, tensors_of(module, buffers=False)))


def _device(module: nn.Module) -> torch.device:
    return next(iter(tensors_of(module))).device


def has_plain_weights(module: nn.Module) -> bool:
    """Return whether every weight is available and not packed."""
    return not any(
        weight.is_meta or is_packed(weight) for weight in tensors_of(module, buffers=False)
    )


def is_packed(weight: Tensor) -> bool:
    """Return whether a weight is quantised: a tensor subclass, or integers."""
    return type(weight) not in (Tensor, nn.Parameter) or not (
        weight.is_floating_point() or weight.is_complex() or weight.dim() == 0
    )


def rounds_activations(weight: Tensor) -> bool:
    """Return whether a weight of torchao also quantises its activations."""
    names = ("act_quant_kwargs", "activation_quantization", "input_quant_func")
    return any(getattr(weight, name, None) is not None for name in names)


def _unpacked(weight: Tensor) -> nn.Parameter:
    # torch would read packed integers (bitsandbytes) as the numbers themselves
    if is_spread(weight):
        return nn.Parameter(whole(weight), requires_grad=False)
    unpacks = type(weight).dequantize is not Tensor.dequantize
    plain = weight.dequantize() if unpacks else weight
    if type(plain) not in (Tensor, nn.Parameter) or not plain.is_floating_point():
        raise UnsupportedModel(
            f"weights are packed as {type(weight).__name__} ({weight.dtype}), which mixlens "
            "cannot unpack. Dequantise the model, or load it without quantisation"
        )
    return nn.Parameter(plain.detach(), requires_grad=False)


def _plain_product(part: nn.Linear) -> nn.Linear:
    """Compute a plain product. A tensor subclass may pack plain weights again and block
    derivatives.
    """
    made = nn.Linear(part.in_features, part.out_features, part.bias is not None, device="meta")
    made.weight, made.bias = _unpacked(part.weight), part.bias
    return made.eval()


@functools.lru_cache(maxsize=1)  # one layer at a time: more may not fit
def _with_weights(module: nn.Module) -> nn.Module:
    known: dict[int, Any] = {}
    for part in module.modules():
        known |= {
            id(hook): hook for hook in _all_hooks(part)
        }  # shared, not copied, because they hold everything
        packed = [weight for weight in part.parameters(recurse=False) if is_packed(weight)]
        known |= {id(weight): _unpacked(weight) for weight in packed}
        if packed and isinstance(part, nn.Linear) and type(part) is not nn.Linear:
            known[id(part)] = _plain_product(part)
    for place, (hook, name) in _stored(module).items():
        weight = hook.weights_map[name].to(hook.execution_device)
        known[place] = nn.Parameter(weight, requires_grad=False)
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


def with_numbers(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield parameters and buffers by name. Offloaded ones are loaded one at a time, and missing
    ones are skipped.
    """
    stored = _stored(model)
    for name, tensor in itertools.chain(model.named_parameters(), model.named_buffers()):
        if id(tensor) in stored:
            hook, key = stored[id(tensor)]
            yield name, hook.weights_map[key]
        elif not tensor.is_meta:
            yield name, tensor


def _stored(module: nn.Module) -> dict[int, tuple[Any, str]]:
    """Return offloaded weights (by id), with the hook that loads them and its name for them."""
    return {
        id(tensor): (hook, name)
        for part in parts_of(module)
        for hook in _hooks(part)
        if hook.weights_map is not None
        for name, tensor in itertools.chain(
            part.named_parameters(recurse=hook.place_submodules),
            part.named_buffers(recurse=hook.place_submodules),
        )
        if tensor.is_meta
    }


def offloaded_tensors(parts: Iterable[nn.Module]) -> list[Tensor]:
    """Return the weights that accelerate keeps in the machine's memory, without those on disk."""
    maps = {
        id(root): root
        for part in parts
        if "_hf_hook" in vars(part)
        for hook in _hooks(part)
        if (root := getattr(hook.weights_map, "dataset", hook.weights_map)) is not None
    }
    stores = [getattr(root, "state_dict", root) for root in maps.values()]
    tensors = (each for store in stores if isinstance(store, dict) for each in store.values())
    return [each for each in tensors if isinstance(each, Tensor)]


def _all_hooks(part: nn.Module) -> Iterator[Any]:
    hook = getattr(part, "_hf_hook", None)
    if hook is not None:
        yield hook
        yield from getattr(hook, "hooks", ())


def _hooks(part: nn.Module) -> Iterator[Any]:
    """Return accelerate's hooks that move weights to a device."""
    for hook in _all_hooks(part):
        if hasattr(hook, "execution_device") and hasattr(hook, "weights_map"):
            yield hook


_KINDS = ("reserved", "allocated")


def free_memory(device: torch.device) -> int:
    """Return the bytes that this process can still allocate."""
    if device.type == "cuda":
        return _of_gpu(device)[0]
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):  # not on every system
        return 2**31


def available_memory(device: torch.device) -> int:
    """Return the bytes that a plan may use: free memory, and caches that can be freed."""
    if device.type == "cuda":
        return sum(_of_gpu(device))
    try:
        with open("/proc/meminfo") as file:
            known = dict(line.split(":", 1) for line in file)
        return 1024 * int(known["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):  # not Linux: nothing is rejected beforehand
        return 2**63


def _of_gpu(device: torch.device) -> tuple[int, int]:
    """Return the bytes that torch can still reserve, and those that it has reserved but not
    used.
    """
    free, whole = torch.cuda.mem_get_info(device)
    known = torch.cuda.memory_stats(device)  # empty before anything is allocated
    reserved, used = (int(known.get(f"{kind}_bytes.all.current", 0)) for kind in _KINDS)
    share_of = getattr(torch.cuda, "get_per_process_memory_fraction", None)  # not in torch 2.7
    share = 1.0 if share_of is None else share_of(device)
    return within_share(free, whole, reserved, share), reserved - used


def within_share(free: int, whole: int, reserved: int, share: float) -> int:
    """Return how many free bytes torch can still reserve if it may use this fraction of all
    memory.
    """
    return max(0, min(free, int(share * whole) - reserved))


def raise_if_out_of_memory(error: Exception) -> None:
    """Raise again if an error is out of memory, which proves nothing and must not be cached."""
    if is_out_of_memory(error):
        raise error


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether a device or the machine ran out of memory."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    words = ("out of memory", "can't allocate memory", "not enough memory")
    return isinstance(error, RuntimeError) and any(word in str(error).lower() for word in words)
