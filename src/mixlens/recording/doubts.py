"""Checks that wait for the end of a forward pass.

A look at a number on a GPU stops the queue of its work. The errors of rows are therefore collected
as they are computed and looked at once, before any score is handed out.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


class Doubts:
    """Errors with their bars, and what to raise if one is not met."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Tensor, float, Callable[[float], Exception]]] = []

    def add(self, error: Tensor, bar: float, failure: Callable[[float], Exception]) -> None:
        """`error` is a single number; NaN meets no bar."""
        self._waiting.append((error, bar, failure))

    def settle(self) -> None:
        """Raises for the first error above its bar."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        errors = torch.stack([error.float() for error, _, _ in waiting]).tolist()
        for error, (_, bar, failure) in zip(errors, waiting, strict=True):
            if not error <= bar:
                raise failure(error)


def row_error(rows: Tensor, expected: Tensor, summands: Tensor | None = None) -> Tensor:
    """Largest difference of any row, relative to that row's size, as a tensor.

    `summands`: for each row the size of what was summed up in it; a row smaller than a thousandth
    of it may be rounding.
    """
    sizes = expected.abs().amax(-1)
    if summands is not None:
        sizes = torch.maximum(sizes, 1e-3 * summands)
    apart = (rows - expected).abs().amax(-1)
    return (apart / sizes.clamp_min(torch.finfo(sizes.dtype).tiny)).max()
