"""Parts of layers that are built alike, side by side: as if the layers were texts of one batch.

On a short prompt, starting an operation takes longer than what it computes. With the layers along
the first axis of every tensor, one operation serves them all. Only products with weights are taken
layer by layer (`kernels.matrices`).
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn


class SideBySide(nn.Module):
    """The same part of several layers."""

    def __init__(self, modules: tuple[nn.Module, ...]) -> None:
        super().__init__()
        self.each = nn.ModuleList(modules)
        self._parts: dict[str, SideBySide] = {}

    def __iter__(self) -> Iterator[nn.Module]:
        return iter(self.each)

    def get_submodule(self, target: str) -> nn.Module:
        """A part of each, by its path."""
        if not target:
            return self
        if target not in self._parts:
            self._parts[target] = SideBySide(tuple(map(operator.attrgetter(target), self)))
        return self._parts[target]


def stacked(rows: Sequence[Float[Tensor, " d"]]) -> Float[Tensor, "layer one d"]:
    """One row of each layer, to be added to all of its rows or to scale them."""
    return torch.stack(list(rows))[:, None]
