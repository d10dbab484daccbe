"""One matrix of each of several layers, in the place of a single one: a layer's rows are multiplied
by its own. The matrices stay where they are, and nothing is copied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor


@dataclass(frozen=True)
class Matrices:
    """One matrix of each layer. `rows @ matrices` multiplies the rows of each layer by its own, in
    the precision of `dtype`. It takes the place of a tensor if that is all that is done with it.
    """

    each: tuple[Tensor, ...]
    dtype: torch.dtype
    axis: int = 0  # of the rows: along which the layers are

    @property
    def shape(self) -> torch.Size:
        """Of one matrix."""
        return self.each[0].shape

    def view(self, *shape: int) -> Matrices:
        """Each in a different shape."""
        return self._changed(lambda matrix: matrix.view(*shape))

    def flatten(self, first: int, last: int) -> Matrices:
        """Each with two axes as one."""
        return self._changed(lambda matrix: matrix.flatten(first, last))

    def to(self, like: Tensor) -> Matrices:
        """For products in the precision of a tensor."""
        return replace(self, dtype=like.dtype)

    def _changed(self, change: Callable[[Tensor], Tensor]) -> Matrices:
        return replace(self, each=tuple(map(change, self.each)))

    def __rmatmul__(self, rows: Tensor) -> Tensor:
        if rows.dim() == 2:  # one row of each layer
            return self.__rmatmul__(rows[None])[0]
        made = rows.new_empty(*rows.shape[:2], self.shape[-1])
        given, products = rows.unbind(self.axis), made.unbind(self.axis)
        for matrix, here, product in zip(self.each, given, products, strict=True):
            torch.mm(here, matrix.to(rows.dtype), out=product)
        return made


if TYPE_CHECKING:
    Matrix = Tensor  # what is done with one is done with several
else:
    Matrix = Tensor | Matrices
