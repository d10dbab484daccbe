"""Every part of a model, without names.

`Module.modules` and `Module.parameters` name and compare what they give. That takes five times as
long, and each call of a measure goes through a model several times.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn


def parts_of(module: nn.Module) -> list[nn.Module]:
    """A module and all modules inside; one that is shared comes once for each place."""
    parts = [module]
    for part in parts:  # the list grows meanwhile
        if part._modules:
            parts += [child for child in part._modules.values() if child is not None]
    return parts


def tensors_of(module: nn.Module, *, buffers: bool = True) -> Iterator[Tensor]:
    """Parameters, and buffers, of a module and of all modules inside."""
    for part in parts_of(module):
        for table in (part._parameters, part._buffers) if buffers else (part._parameters,):
            if table:
                yield from (tensor for tensor in table.values() if tensor is not None)
