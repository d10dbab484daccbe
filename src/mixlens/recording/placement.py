"""Where the weights of a model are: on a device as plain numbers, packed, or away.

accelerate keeps the weights of large models in the machine's memory or on disk and brings them to
the device for each call of a module. Between calls such a parameter is on the meta device: it has a
shape and no numbers. Quantised weights (torchao, quanto) are packed integers that act as numbers in
some products only. The model runs as always. What reads weights gets a copy of one layer that has
them as plain numbers, and the recording's checks compare that copy with what the model computed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from mixlens.errors import UnsupportedModel
from mixlens.parts import copied, parts_of, tensors_of
from mixlens.recording.memory import available_memory


def entry_device(model: nn.Module) -> torch.device:
    """Where the inputs of a model go."""
    first = next(model.parameters())
    if not first.is_meta:
        return first.device
    for part in model.modules():
        for hook in _hooks(part):
            if hook.execution_device is not None:
                return torch.device(hook.execution_device)
    raise UnsupportedModel(
        "the weights are on the meta device, where they have shapes and no numbers: load them"
    )


def available_to(model: nn.Module) -> int:
    """Bytes that a plan may count on, on all devices of the kind on which the model runs."""
    entry = entry_device(model)
    named = getattr(model, "hf_device_map", {}).values()  # by accelerate
    others = {torch.device(name) for name in named if name not in ("disk", "meta")}
    kin = {device for device in others if device.type == entry.type and device.type != "cpu"}
    return sum(available_memory(device) for device in {entry} | kin)


def device_of_calls(module: nn.Module) -> torch.device | None:
    """The device to which accelerate takes what a module is called with; None: it does not."""
    devices = (hook.execution_device for hook in _hooks(module))
    return next((torch.device(device) for device in devices if device is not None), None)


def is_moved(module: nn.Module) -> bool:
    """Does accelerate do something before and after calls of its parts?"""
    return any("_hf_hook" in vars(part) for part in parts_of(module))


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor on a device. A plain copy would wait until a GPU has done all that it was given."""
    if tensor.device.type != "cpu" or device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def at_hand(module: nn.Module) -> nn.Module:
    """A layer whose weights can be read: itself, or a copy if they are away or packed."""
    return module if has_plain_weights(module) else _with_weights(module)


def has_plain_weights(module: nn.Module) -> bool:
    """Is every weight at hand, and not packed?"""
    return not any(
        weight.is_meta or is_packed(weight) for weight in tensors_of(module, buffers=False)
    )


def is_packed(weight: Tensor) -> bool:
    """Is this weight quantised? Then it is a class of its own, or whole numbers."""
    return type(weight) not in (Tensor, nn.Parameter) or not (
        weight.is_floating_point() or weight.is_complex() or weight.dim() == 0
    )


def _unpacked(weight: Tensor) -> nn.Parameter:
    # torch's own takes packed integers (bitsandbytes) for the numbers that they stand for
    unpacks = type(weight).dequantize is not Tensor.dequantize
    plain = weight.dequantize() if unpacks else weight
    if type(plain) not in (Tensor, nn.Parameter) or not plain.is_floating_point():
        raise UnsupportedModel(
            f"weights are packed as {type(weight).__name__} ({weight.dtype}), which cannot be"
            " unpacked here: dequantise the model, or load it without quantisation"
        )
    return nn.Parameter(plain.detach(), requires_grad=False)


def _plain_product(part: nn.Linear) -> nn.Linear:
    """A class of its own may pack plain weights again when it runs, and pass on no derivative."""
    made = nn.Linear(part.in_features, part.out_features, part.bias is not None, device="meta")
    made.weight, made.bias = _unpacked(part.weight), part.bias
    return made.eval()


@functools.lru_cache(maxsize=1)  # one layer at a time: more may not fit
def _with_weights(module: nn.Module) -> nn.Module:
    known: dict[int, Any] = {}
    for part in module.modules():
        known |= {id(hook): hook for hook in _all_hooks(part)}  # shared, not copied: they hold all
        packed = [weight for weight in part.parameters(recurse=False) if is_packed(weight)]
        known |= {id(weight): _unpacked(weight) for weight in packed}
        if packed and isinstance(part, nn.Linear) and type(part) is not nn.Linear:
            known[id(part)] = _plain_product(part)
        for hook in _hooks(part):
            for name, tensor in part.named_parameters(recurse=hook.place_submodules):
                if tensor.is_meta and hook.weights_map is not None:
                    weight = hook.weights_map[name].to(hook.execution_device)
                    known[id(tensor)] = nn.Parameter(weight, tensor.requires_grad)
    made = copied(module, known)
    for part in made.modules():
        for name in ("forward", "_old_forward", "_hf_hook"):
            vars(part).pop(name, None)
    if any(parameter.is_meta for parameter in made.parameters()):
        raise UnsupportedModel(
            "some weights are away (on the meta device), and accelerate does not say where: load"
            " the model without offload"
        )
    return made


def _all_hooks(part: nn.Module) -> Iterator[Any]:
    hook = getattr(part, "_hf_hook", None)
    if hook is not None:
        yield hook
        yield from getattr(hook, "hooks", ())


def _hooks(part: nn.Module) -> Iterator[Any]:
    """accelerate's hooks that bring weights to a device."""
    for hook in _all_hooks(part):
        if hasattr(hook, "execution_device") and hasattr(hook, "weights_map"):
            yield hook
