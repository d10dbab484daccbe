"""Upcast half-precision tensors and layers to float32."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from mixlens.capture.layer_calls import LayerCall
from mixlens.model.module_walk import copied


def computing_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return float32 for half precision, else the same dtype."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


class UpcastModules:
    """Layers in float32 or better: for half-precision models a copy, one at a time."""

    def __init__(self) -> None:
        self._last: tuple[LayerCall, nn.Module] | None = None

    def of(self, call: LayerCall) -> nn.Module:
        """Return the module of a call, or its upcast copy."""
        if call.hidden_in.dtype == computing_dtype(call.hidden_in.dtype):
            return call.readable
        if self._last is None or self._last[0] is not call:
            self._last = (call, _wide_copy(call.readable))
        return self._last[1]


def _wide_copy(module: nn.Module) -> nn.Module:
    """Return a copy in float32, without `Module.float`, which writes into parameters: a transform
    of torch.func forbids that.
    """
    wide: dict[int, Any] = {
        id(parameter): nn.Parameter(parameter.detach().float(), parameter.requires_grad)
        for parameter in module.parameters()
        if parameter.is_floating_point()
    }
    wide |= {id(part): part.float() for part in module.buffers() if part.is_floating_point()}
    return copied(module, wide)


def wide(tensor: Tensor) -> Tensor:
    """Return a tensor in float32 or better."""
    return tensor.to(computing_dtype(tensor.dtype))
