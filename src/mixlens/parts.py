"""Every part of a model, without names, and a copy of a part.

`Module.modules` and `Module.parameters` name and compare what they give. That takes five times as
long, and each call of a measure goes through a model several times.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def parts_of(module: nn.Module) -> list[nn.Module]:
    """A module and all modules inside; one that is shared comes once for each place."""
    parts = [module]
    for part in parts:  # the list grows meanwhile
        if part._modules:
            parts += [child for child in part._modules.values() if child is not None]
    return parts


def tensors_of(module: nn.Module, *, buffers: bool = True) -> list[Tensor]:
    """Parameters, and buffers, of a module and of all modules inside."""
    tensors: list[Tensor | None] = []
    for part in parts_of(module):
        if part._parameters:
            tensors += part._parameters.values()
        if buffers and part._buffers:
            tensors += part._buffers.values()
    return [tensor for tensor in tensors if tensor is not None]


def copied(module: nn.Module, replaced: Mapping[int, Any] | None = None) -> nn.Module:
    """A copy of a module, in which some objects (by their ids) are replaced by others.

    Hooks are shared: one that is a bound method would take all that it belongs to with it, which
    may be a recording and its model.
    """
    hooks = {
        id(hook): hook
        for part in parts_of(module)
        for name in _HOOKS
        for hook in getattr(part, name).values()
    }
    return copy.deepcopy(module, {**hooks, **(replaced or {})})
