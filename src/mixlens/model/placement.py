"""Determine whether the weights of a model are on a device or offloaded.

accelerate keeps the weights of large models in the machine's memory or on disk and moves them to
the device for each call of a module. Between calls such a parameter is on the meta device: it has a
shape, but no values. This module also measures the free memory of a device.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from mixlens.errors import UnsupportedModel
from mixlens.model.distributed import smallest
from mixlens.model.module_walk import parts_of, tensors_of


def entry_device(model: nn.Module) -> torch.device:
    """Return the device that a model's inputs must be on."""
    first = next(model.parameters())
    if not first.is_meta:
        return first.device
    for part in model.modules():
        for hook in _hooks(part):
            if hook.execution_device is not None:
                return torch.device(hook.execution_device)
    raise _nowhere(model)


def _nowhere(model: nn.Module, stored: Mapping[int, Any] | None = None) -> UnsupportedModel:
    """Return an error about the first weight on the meta device that is not offloaded."""
    tensors_by_name = itertools.chain(model.named_parameters(), model.named_buffers())
    name = next(
        name for name, each in tensors_by_name if each.is_meta and id(each) not in (stored or {})
    )
    return UnsupportedModel(
        f"the weights `{name}` are on the meta device, without numbers. Load them"
    )


def available_to(model: nn.Module) -> int:
    """Return how many bytes a measure may plan to use on the devices of a model.

    Raise `UnsupportedModel` if some weights are on the meta device without being offloaded.
    """
    entry, weights = entry_device(model), tensors_of(model)
    devices = {weight.device for weight in weights}
    if torch.device("meta") in devices:
        stored = stored_weights(model)
        if any(weight.is_meta and id(weight) not in stored for weight in weights):
            raise _nowhere(model, stored)
        hook_devices = {hook.execution_device for hook, _ in stored.values()} - {None}
        devices |= {
            torch.empty(0, device=name).device for name in hook_devices
        }  # "cuda" has a number now
    kin = {device for device in devices if device.type == entry.type and device.type != "cpu"}
    return smallest(model, sum(available_memory(device) for device in kin or {entry}))


def device_of_calls(module: nn.Module) -> torch.device | None:
    """Return the device to which accelerate moves the inputs of a module, or None."""
    devices = (hook.execution_device for hook in _hooks(module))
    return next((torch.device(device) for device in devices if device is not None), None)


def is_moved(module: nn.Module) -> bool:
    """Return whether accelerate has added hooks to a module or its submodules."""
    return any("_hf_hook" in vars(part) for part in parts_of(module))


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor to a device without synchronising with the GPU."""
    if tensor.device.type != "cpu" or device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def with_numbers(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield parameters and buffers with their names.

    Offloaded tensors are loaded one at a time. Tensors without values are skipped.
    """
    stored = stored_weights(model)
    for name, tensor in itertools.chain(model.named_parameters(), model.named_buffers()):
        if id(tensor) in stored:
            hook, key = stored[id(tensor)]
            yield name, hook.weights_map[key]
        elif not tensor.is_meta:
            yield name, tensor


def stored_weights(module: nn.Module) -> dict[int, tuple[Any, str]]:
    """Return, for the id of each offloaded weight, the hook that loads the weight and its name in
    this hook.
    """
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
    """Return the weights that accelerate keeps in CPU memory, but not those on disk."""
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


def all_hooks(part: nn.Module) -> Iterator[Any]:
    """Yield the hooks that accelerate has added to a module."""
    hook = getattr(part, "_hf_hook", None)
    if hook is not None:
        yield hook
        yield from getattr(hook, "hooks", ())


def _hooks(part: nn.Module) -> Iterator[Any]:
    """Yield the hooks of accelerate that move weights to a device."""
    for hook in all_hooks(part):
        if hasattr(hook, "execution_device") and hasattr(hook, "weights_map"):
            yield hook


_KINDS = ("reserved", "allocated")


def free_memory(device: torch.device) -> int:
    """Return how many bytes this process can allocate without freeing caches."""
    if device.type == "cuda":
        return _of_gpu(device)[0]
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):  # not on every system
        return 2**31


def available_memory(device: torch.device) -> int:
    """Return how many bytes a measure may plan to use: free memory plus freeable caches."""
    if device.type == "cuda":
        return sum(_of_gpu(device))
    try:
        with open("/proc/meminfo") as file:
            entries = dict(line.split(":", 1) for line in file)
        return 1024 * int(entries["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):  # not Linux: nothing is rejected beforehand
        return 2**63


def _of_gpu(device: torch.device) -> tuple[int, int]:
    """Return the bytes that torch can still reserve on a GPU, and those reserved but unused."""
    free, whole = torch.cuda.mem_get_info(device)
    statistics = torch.cuda.memory_stats(device)  # empty before anything is allocated
    reserved, allocated = (int(statistics.get(f"{kind}_bytes.all.current", 0)) for kind in _KINDS)
    share_of = getattr(torch.cuda, "get_per_process_memory_fraction", None)  # not in torch 2.7
    share = 1.0 if share_of is None else share_of(device)
    return within_share(free, whole, reserved, share), reserved - allocated


def within_share(free: int, whole: int, reserved: int, share: float) -> int:
    """Return how many bytes torch can still reserve if it may use only a fraction of all memory."""
    return max(0, min(free, int(share * whole) - reserved))


def raise_if_out_of_memory(error: Exception) -> None:
    """Re-raise an out-of-memory error. Such an error says nothing about the model and must not be
    cached.
    """
    if is_out_of_memory(error):
        raise error


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether the error means that a device or the machine ran out of memory."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    words = ("out of memory", "can't allocate memory", "not enough memory")
    return isinstance(error, RuntimeError) and any(word in str(error).lower() for word in words)
