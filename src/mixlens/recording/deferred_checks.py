"""Checks that are deferred to the end of a forward pass or of a measure.

A look at a number on a GPU stops the queue of its work, and on short prompts each small step costs
more to start than to run. So what is to be compared is kept as it goes by. All layers are compared
in one go, before any score is handed out.
"""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from mixlens.errors import NonFiniteActivations
from mixlens.kernels.differences import row_sizes
from mixlens.model.free_memory import is_out_of_memory

_HELD = 2**23  # numbers that may wait at once; more are compared earlier
_SMALL = 2**20  # numbers of a tensor: starting an operation takes as long as copying them
Failure = Callable[[float], Exception]


Verdict = tuple[int, float, Failure]
"""Of one error: the number of the doubt, the largest error that may be, what to raise above it."""


class _Group(NamedTuple):
    """Doubts that are settled in one go: their tensors have the same shapes."""

    tensors: list[tuple[Tensor, ...]]
    verdicts: list[Verdict]


class DeferredChecks:
    """Tensors with what must hold for them, and what to raise if it does not."""

    def __init__(self) -> None:
        self._count = 0
        self._waiting: dict[tuple[object, ...], _Group] = {}
        self._held = 0  # numbers in them
        self._single: list[Tensor] = []  # errors that are known, each by itself
        self._errors: list[Tensor] = []  # those of groups
        self._verdicts: list[list[Verdict]] = [[]]  # of the single ones, and of each group

    def rows_are_finite(self, rows: Tensor, failure: Failure) -> None:
        """`rows` must hold neither NaN nor infinity."""
        self.stacked_error_is_small(_not_finite, (rows,), 0.0, failure)

    def rows_agree(
        self,
        rows: Tensor,
        expected: Tensor,
        bar: float,
        failure: Failure,
        summands: Sequence[Tensor] = (),
    ) -> None:
        """Each row must be as expected, relative to its size; see `row_errors`."""
        self.stacked_error_is_small(row_errors, (rows, expected, *summands), bar, failure)

    def error_is_small(self, error: Tensor, bar: float, failure: Failure) -> None:
        """One number that must not exceed its bar."""
        self._count += 1
        self._single.append(error)
        self._verdicts[0].append((self._count, bar, failure))

    def settle(self) -> None:
        """Raises for the first doubt that is true."""
        errors, verdicts = self.compared()
        raise_if_true(errors.tolist(), verdicts)

    def compared(self) -> tuple[Tensor, Sequence[Verdict]]:
        """All errors in one tensor that nobody has looked at, and what `raise_if_true` needs with
        them. The doubts are gone then.
        """
        self._compare()
        single, errors, verdicts = self._single, self._errors, self._verdicts
        self._single, self._errors, self._verdicts = [], [], [[]]
        if single:
            device = single[0].device  # layers may be on several
            errors.insert(0, torch.stack([error.to(device, torch.float32) for error in single]))
        if not errors:
            return torch.empty(0), []
        device = errors[0].device
        every = torch.cat([error.to(device, torch.float32) for error in errors])
        return every, list(itertools.chain(*verdicts))

    def stacked_error_is_small(
        self,
        error: Callable[..., Tensor],
        tensors: tuple[Tensor, ...],
        bar: float,
        failure: Failure,
    ) -> None:
        """`error` of stacked tensors is one number for each entry, which must not exceed a bar."""
        alike = (error, *[(tensor.shape, tensor.dtype, tensor.device) for tensor in tensors])
        group = self._waiting.get(alike)
        if group is None:
            group = self._waiting[alike] = _Group([], [])
        self._count += 1
        group.tensors.append(tensors)
        group.verdicts.append((self._count, bar, failure))
        self._held += sum(map(torch.numel, tensors))
        if self._held > _HELD:
            self._compare()

    def _compare(self) -> None:
        waiting, self._waiting, self._held = self._waiting, {}, 0
        for (error, *_), group in waiting.items():
            assert callable(error)
            columns = zip(*group.tensors, strict=True)
            self._errors.append(error(*(torch.stack(column) for column in columns)))
            self._verdicts.append(group.verdicts)


def raise_if_true(errors: Sequence[float], verdicts: Sequence[Verdict]) -> None:
    """Raises for the first error above its bar. NaN meets no bar."""
    wrong = [
        (number, failure, error)
        for error, (number, bar, failure) in zip(errors, verdicts, strict=True)
        if not error <= bar
    ]
    if wrong:
        _, failure, error = min(wrong, key=operator.itemgetter(0))
        raise failure(error)


_open: contextvars.ContextVar[DeferredChecks | None] = contextvars.ContextVar(
    "mixlens_doubts", default=None
)


@contextlib.contextmanager
def checks_wait(deferred: DeferredChecks | None = None) -> Iterator[None]:
    """While open, `require_small` looks at no number. With `doubts` of their own, whoever opened
    this settles them before anything is handed out; without, they are settled when it closes, or
    by whoever opened it first.
    """
    before = _open.get()
    if deferred is None and before is not None:
        yield
        return
    own = DeferredChecks() if deferred is None else deferred
    token = _open.set(own)
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            own.settle()  # what was computed from wrong numbers may fail in any way
        raise
    finally:
        _open.reset(token)
    if deferred is None:
        own.settle()


def waiting_for(*tensors: Tensor) -> DeferredChecks | None:
    """Who compares these tensors later, those of all layers in one go; None if nobody waits, or if
    they are too large to be kept and copied for it.
    """
    return _open.get() if max(map(torch.numel, tensors)) <= _SMALL else None


def require_small(error: Tensor, bar: float, failure: Failure) -> None:
    """Raises if an error exceeds its bar, at once or when the open `checks_wait` is settled."""
    deferred = _open.get()
    if deferred is not None:
        deferred.error_is_small(error, bar, failure)
    else:
        raise_if_true([float(error)], [(0, bar, failure)])


def not_finite(layer: str, output: Tensor) -> NonFiniteActivations:
    """What to raise if a layer returned such an output."""
    advice = "Check the weights"
    if output.element_size() < 4:
        advice += ", or load the model in a wider dtype (float32)"
    elif len(output) > 1:
        advice += ", or measure the texts one at a time: padding may be the cause"
    return NonFiniteActivations(f"layer {layer} returned NaN or infinity. {advice}.")


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


def _not_finite(rows: Tensor) -> Tensor:
    """NaN is the largest and the smallest number: `isfinite` of all would take 20 times as long."""
    numbers = rows.flatten(1)
    return 1 - (numbers.amax(1).isfinite() & numbers.amin(1).isfinite()).float()
