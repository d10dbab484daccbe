"""Checks that wait for the end of a forward pass.

A look at a number on a GPU stops the queue of its work, and on short prompts each small step costs
more to start than to run. So what is to be compared is kept as it goes by. All layers are compared
in one go, before any score is handed out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from mixlens.recording.differences import row_sizes

_HELD = 2**23  # numbers that may wait at once; more are compared earlier
Failure = Callable[[float], Exception]


class _Doubt(NamedTuple):
    error: Callable[..., Tensor]  # of stacked tensors: one number for each entry
    tensors: tuple[Tensor, ...]
    bar: float
    failure: Failure

    def alike(self) -> tuple[object, ...]:
        """Doubts that agree in this are settled in one go."""
        kinds = [(tensor.shape, tensor.dtype, tensor.device) for tensor in self.tensors]
        return (self.error, *kinds)


class Doubts:
    """Tensors with what must hold for them, and what to raise if it does not.

    `patient=False`: whoever can look at a number at once should do so.
    """

    def __init__(self, *, patient: bool = True) -> None:
        self.patient = patient
        self._waiting: list[_Doubt] = []
        self._held = 0  # numbers in them
        self._compared: list[tuple[_Doubt, Tensor]] = []

    def rows_are_finite(self, rows: Tensor, failure: Failure) -> None:
        """`rows` must hold neither NaN nor infinity."""
        self._add(_Doubt(_not_finite, (rows,), 0.0, failure))

    def rows_agree(
        self,
        rows: Tensor,
        expected: Tensor,
        bar: float,
        failure: Failure,
        summands: Sequence[Tensor] = (),
    ) -> None:
        """Each row must be as expected, relative to its size; see `row_errors`."""
        self._add(_Doubt(row_errors, (rows, expected, *summands), bar, failure))

    def none_is_massive(self, sizes: Tensor, bar: float, failure: Failure) -> None:
        """No number may be `bar` times as large as the median of its row."""
        self._add(_Doubt(_spread, (sizes,), bar, failure))

    def settle(self) -> None:
        """Raises for the first doubt that is true. NaN meets no bar."""
        self._compare()
        compared, self._compared = self._compared, []
        if not compared:
            return
        device = compared[0][1].device  # layers may be on several
        errors = torch.stack([error.to(device) for _, error in compared]).tolist()
        for error, (doubt, _) in zip(errors, compared, strict=True):
            if not error <= doubt.bar:
                raise doubt.failure(error)

    def _add(self, doubt: _Doubt) -> None:
        self._waiting.append(doubt)
        self._held += len(doubt.tensors) * doubt.tensors[0].numel()  # mostly of one shape
        if self._held > _HELD:
            self._compare()

    def _compare(self) -> None:
        waiting, self._waiting, self._held = self._waiting, [], 0
        groups: dict[tuple[object, ...], list[_Doubt]] = {}
        for doubt in waiting:
            groups.setdefault(doubt.alike(), []).append(doubt)
        errors: dict[int, Tensor] = {}
        for group in groups.values():
            columns = zip(*(doubt.tensors for doubt in group), strict=True)
            made = group[0].error(*(torch.stack(column) for column in columns))
            errors.update(zip(map(id, group), made.float().unbind(), strict=True))
        self._compared += [(doubt, errors[id(doubt)]) for doubt in waiting]


def row_errors(rows: Tensor, expected: Tensor, *summands: Tensor) -> Tensor:
    """For each entry of the first axis the largest difference of any row, relative to that row's
    size.

    `summands`: what was summed up in the rows; a row smaller than a thousandth of it may be
    rounding.
    """
    expected = expected.to(rows)
    sizes = row_sizes(expected)
    for part in summands:
        sizes = torch.maximum(sizes, 1e-3 * row_sizes(part.to(rows)))
    apart = row_sizes(rows - expected) / sizes.clamp_min(torch.finfo(sizes.dtype).tiny)
    return apart.flatten(1).amax(1)


def _spread(sizes: Tensor) -> Tensor:
    usual = sizes.median(-1).values.clamp_min(torch.finfo(sizes.dtype).tiny)
    return (sizes.amax(-1) / usual).flatten(1).amax(1)


def _not_finite(rows: Tensor) -> Tensor:
    return 1 - rows.isfinite().flatten(1).all(1).float()
