"""Checks that wait for the end of a forward pass, or of a measure.

A look at a number on a GPU stops the queue of its work, and on short prompts each small step costs
more to start than to run. So what is to be compared is kept as it goes by. All layers are compared
in one go, before any score is handed out.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from mixlens.recording.differences import row_sizes
from mixlens.recording.memory import is_out_of_memory

_HELD = 2**23  # numbers that may wait at once; more are compared earlier
Failure = Callable[[float], Exception]
Verdicts = Sequence[tuple[float, Failure]]
"""The largest error that may be, and what to raise above it."""


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
        self._errors: list[Tensor] = []
        self._verdicts: list[tuple[float, Failure]] = []  # the bar of each error

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

    def error_is_small(self, error: Tensor, bar: float, failure: Failure) -> None:
        """One number that must not exceed its bar."""
        self._errors.append(error.float())
        self._verdicts.append((bar, failure))

    def settle(self) -> None:
        """Raises for the first doubt that is true."""
        errors, verdicts = self.compared()
        raise_if_true(errors.tolist(), verdicts)

    def compared(self) -> tuple[Tensor, Verdicts]:
        """All errors in one tensor that nobody has looked at, and what `raise_if_true` needs with
        them. The doubts are gone then.
        """
        self._compare()
        errors, verdicts = self._errors, self._verdicts
        self._errors, self._verdicts = [], []
        if not errors:
            return torch.empty(0), verdicts
        device = errors[0].device  # layers may be on several
        return torch.stack([error.to(device) for error in errors]), verdicts

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
        own: dict[int, Tensor] = {}
        for group in groups.values():
            columns = zip(*(doubt.tensors for doubt in group), strict=True)
            made = group[0].error(*(torch.stack(column) for column in columns))
            own.update(zip(map(id, group), made.unbind(), strict=True))
        for doubt in waiting:
            self.error_is_small(own[id(doubt)], doubt.bar, doubt.failure)


def raise_if_true(errors: Sequence[float], verdicts: Verdicts) -> None:
    """Raises for the first error above its bar. NaN meets no bar."""
    for error, (bar, failure) in zip(errors, verdicts, strict=True):
        if not error <= bar:
            raise failure(error)


_open: contextvars.ContextVar[Doubts | None] = contextvars.ContextVar(
    "mixlens_doubts", default=None
)


@contextlib.contextmanager
def checks_wait(doubts: Doubts | None = None) -> Iterator[None]:
    """While open, `require_small` looks at no number. With `doubts` of their own, whoever opened
    this settles them before anything is handed out; without, they are settled when it closes, or
    by whoever opened it first.
    """
    before = _open.get()
    if doubts is None and before is not None:
        yield
        return
    own = Doubts() if doubts is None else doubts
    token = _open.set(own)
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            own.settle()  # what was computed from wrong numbers may fail in any way
        raise
    finally:
        _open.reset(token)
    if doubts is None:
        own.settle()


def require_small(error: Tensor, bar: float, failure: Failure) -> None:
    """Raises if an error exceeds its bar, at once or when the open `checks_wait` is settled."""
    doubts = _open.get()
    if doubts is not None:
        doubts.error_is_small(error, bar, failure)
    else:
        raise_if_true([float(error)], [(bar, failure)])


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
