"""Simulate two devices: tensors report cpu:0 or cpu:1, and products across devices raise, as in
torch.

Numbers are real, so that measures can be compared with those of a model in one place. What torch
makes inside of itself (and tensors made without a device) belongs to no place and goes with all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from accelerate.hooks import AlignDevicesHook, add_hook_to_module
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map

_DEVICE: Any = Tensor.device.__get__
PLACES = (torch.device("cpu", 0), torch.device("cpu", 1))


def place_of(tensor: Tensor) -> torch.device | None:
    """Where a tensor says it is."""
    return vars(tensor).get("_place")


class TwoDevices(TorchFunctionMode):
    """While open, tensors have places."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func == _DEVICE:
            return place_of(args[0]) or func(*args)
        if func is Tensor.to:
            return _moved(args, kwargs)
        if func is Tensor.cpu:
            return args[0].clone()
        if func is torch.autograd.grad:
            inputs = kwargs["inputs"] if "inputs" in kwargs else args[1]
            like = (inputs,) if isinstance(inputs, Tensor) else inputs
            slopes = func(*args, **kwargs)
            return tuple(_put(s, place_of(t)) for s, t in zip(slopes, like, strict=True))
        places = _places([args, kwargs])
        if len(places) > 1 and func is not Tensor.copy_ and not _is_plain_write(func, args):
            raise RuntimeError(
                f"{getattr(func, '__name__', func)}: expected all tensors on one device, found"
                f" {sorted(map(str, places))}"
            )
        wanted = kwargs.get("device")
        if isinstance(wanted, torch.device) and wanted.index is not None:
            place: torch.device | None = wanted
        else:
            place = place_of(args[0]) if args and isinstance(args[0], Tensor) else None
            place = place or next(iter(places), None)
        made = func(*args, **kwargs)
        return made if place is None else tree_map(lambda value: _put(value, place), made)


def _places(values: Any) -> set[torch.device]:
    tensors = [value for value in tree_flatten(values)[0] if isinstance(value, Tensor)]
    return {place for tensor in tensors if (place := place_of(tensor)) is not None}


def _put(value: Any, place: torch.device | None) -> Any:
    if isinstance(value, Tensor):
        vars(value)["_place"] = place
    return value


def _is_plain_write(func: Any, args: Sequence[Any]) -> bool:
    """A slice may be written to from anywhere, as by `copy_`."""
    return func is Tensor.__setitem__ and not _places(args[1])


def _moved(args: Sequence[Any], kwargs: dict[str, Any]) -> Tensor:
    tensor, *rest = args
    given = [*rest, *kwargs.values()]
    wanted = next((v for v in given if isinstance(v, (torch.device, Tensor))), None)
    wanted = place_of(wanted) if isinstance(wanted, Tensor) else wanted
    made: Tensor = Tensor.to(tensor, *args[1:], **kwargs)
    place = place_of(tensor) if wanted is None or wanted.index is None else wanted
    if place is None:
        return made
    if made is tensor:
        if place_of(tensor) == place:
            return made
        made = tensor.clone()
    _put(made, place)
    return made


def spread(model: nn.Module, layers: Iterable[nn.Module]) -> None:
    """Puts the layers of a model on two devices by turns, and all that is outside on the first, as
    a device map of accelerate does.
    """
    layers = list(layers)
    within = {part for layer in layers for part in layer.modules()}
    for number, layer in enumerate(layers):
        _align(layer, PLACES[number % 2])
    for part in model.modules():
        if part not in within and not within.intersection(part.modules()):
            _align(part, PLACES[0])


def _align(module: nn.Module, place: torch.device) -> None:
    add_hook_to_module(module, AlignDevicesHook(execution_device=place, io_same_device=False))
    for tensor in (*module.parameters(), *module.buffers()):
        _put(tensor, place)
