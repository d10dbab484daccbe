"""Read packed (quantised) weights as plain numbers, whatever library packed them.

A module that quantises only its weights is an affine map. Its matrix is its output for the unit
vectors, exactly, because each sum has one term that is not zero. It is the matrix that the kernel
of the library computes with, which may differ from the one that the format describes (scales in
half precision). `mixlens.model.linearity` checks that such a module is linear.

Other modules with packed weights, such as the experts of a mixture, run as they are.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from mixlens.model.distributed import is_spread
from mixlens.model.module_walk import as_written, tensors_in

_BLOCK = 512  # unit vectors at a time
_SIZES = (("in_features", "out_features"), ("nx", "nf"))


def is_packed(tensor: Tensor) -> bool:
    """Return whether a weight is quantised: a tensor subclass, integers, or one byte per number."""
    if type(tensor) not in (Tensor, nn.Parameter):
        return True
    return tensor.dim() > 0 and (not _is_number(tensor.dtype) or tensor.element_size() == 1)


def _is_number(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


def linear_sizes(part: nn.Module) -> tuple[int, int] | None:
    """Return the number of inputs and outputs of a linear layer, or None for other modules."""
    for names in _SIZES:
        sizes = [getattr(part, name, None) for name in names]
        if all(type(size) is int and size > 0 for size in sizes):
            return sizes[0], sizes[1]  # type: ignore[return-value]
    return None


def replaces_forward(part: nn.Module) -> bool:
    """Return whether a library replaced `forward` of this instance. accelerate and torch.compile
    do so too, and compute the same.
    """
    own = vars(part)
    return "forward" in own and "_hf_hook" not in own and as_written(own["forward"]) is None


def has_packed_weights(part: nn.Module) -> bool:
    """Return whether the own weights of a module cannot be read as they are."""
    is_linear = linear_sizes(part) is not None
    tensors = tensors_in([part], buffers=is_linear)  # other modules keep ids and masks there
    if any(map(is_spread, tensors)):  # over processes
        return False
    return (is_linear and replaces_forward(part)) or any(map(is_packed, tensors))


def awaits_first_run(part: nn.Module) -> bool:
    """Return whether a linear layer has no weight to compute with, because its library unpacks it
    in the first run of the model.
    """
    if linear_sizes(part) is None or type(part).forward is not nn.Linear.forward:
        return False
    weight = getattr(part, "weight", None)
    return not (isinstance(weight, Tensor) and (weight.is_meta or weight.element_size() > 1))


def unpacked(weight: Tensor) -> nn.Parameter | None:
    """Return the numbers of a tensor subclass that can unpack itself, or None."""
    if type(weight).dequantize is Tensor.dequantize:  # reads the packed integers as numbers
        return None
    plain = weight.dequantize()
    if type(plain) not in (Tensor, nn.Parameter) or is_packed(plain):
        return None
    return nn.Parameter(plain.detach(), requires_grad=False)


@torch.no_grad()
def read_by_application(part: nn.Module, dtype: torch.dtype, device: torch.device) -> nn.Linear:
    """Return the plain linear layer that computes the same as a module on vectors of this dtype."""
    sizes = linear_sizes(part)
    assert sizes is not None
    width, outputs = sizes
    bias = _apply(part, torch.zeros(1, width, dtype=dtype, device=device))[0]
    weight = bias.new_empty(outputs, width)
    for start in range(0, width, _BLOCK):
        block = torch.arange(start, min(start + _BLOCK, width), device=device)
        units = nn.functional.one_hot(block, width).to(dtype)
        weight[:, start : start + _BLOCK] = (_apply(part, units) - bias).T
    made = nn.Linear(width, outputs, bias=bool(bias.any()), device="meta")
    made.weight = nn.Parameter(weight, requires_grad=False)
    if made.bias is not None:
        made.bias = nn.Parameter(bias, requires_grad=False)
    return made.eval()


def _apply(part: nn.Module, vectors: Tensor) -> Tensor:
    outputs: Tensor = part(vectors[None])
    return outputs[0].detach()


class RunAsIs(nn.Module):
    """A module whose weights stay packed. In a copy of its layer it is shared, not copied, and it
    runs in its own dtype.
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
        entered = next((each.dtype for each in floats), self._dtype)
        args, kwargs = _cast((args, kwargs), self._dtype)
        return _cast(self._part[0](*args, **kwargs), entered)


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, tuple):
        return tuple(_cast(each, dtype) for each in value)
    if isinstance(value, dict):
        return {name: _cast(each, dtype) for name, each in value.items()}
    return value.to(dtype) if _is_float(value) else value
