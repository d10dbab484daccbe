"""Defer checks to the end of a forward pass or of a measure.

Reading a number from a GPU waits for all queued kernels, and for short prompts, launching a small
kernel takes longer than running it. mixlens therefore keeps the tensors to compare, and compares
those of all layers at once before it returns a score.
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
from mixlens.model.distributed import agree_on_errors
from mixlens.model.placement import is_out_of_memory

MOST_HELD = 2**23  # most deferred numbers; more are compared earlier
_SMALL = 2**20  # numbers of a tensor whose copy takes as long as launching an operation
Failure = Callable[[float], Exception]


Verdict = tuple[int, float, Failure]
"""For one error: the number of the check, the largest accepted error, and the exception to raise
above it.
"""


class _Group(NamedTuple):
    """Checks on tensors of the same shapes, which can run together."""

    tensors: list[tuple[Tensor, ...]]
    verdicts: list[Verdict]


class DeferredChecks:
    """Collects tensors to check later, with the exceptions to raise if a check fails."""

    def __init__(self) -> None:
        self._count = 0
        self._waiting: dict[tuple[object, ...], _Group] = {}
        self._size = 0  # numbers in them
        self._single: list[Tensor] = []  # known errors, each alone
        self._errors: list[Tensor] = []  # errors of groups
        self._verdicts: list[list[Verdict]] = [[]]  # of the single ones, and of each group

    def rows_are_finite(self, rows: Tensor, failure: Failure) -> None:
        """Check that `rows` contain neither NaN nor infinity."""
        self.stacked_error_is_small(_not_finite, (rows,), 0.0, failure)

    def rows_agree(
        self,
        rows: Tensor,
        expected: Tensor,
        bar: float,
        failure: Failure,
    ) -> None:
        """Check that each row agrees with the expected row, up to the relative error `bar` (see
        `row_errors`).
        """
        self.stacked_error_is_small(row_errors, (rows, expected), bar, failure)

    def error_is_small(self, error: Tensor, bar: float, failure: Failure) -> None:
        """Check that a single error does not exceed `bar`."""
        self._count += 1
        self._single.append(error)
        self._verdicts[0].append((self._count, bar, failure))

    def settle(self) -> None:
        """Run all checks, and raise the exception of the first one that fails."""
        errors, verdicts = self.compare()
        raise_if_true(errors.tolist(), verdicts)

    def compare(self) -> tuple[Tensor, Sequence[Verdict]]:
        """Run all comparisons, and return the errors as one tensor, with the verdicts for
        `raise_if_true`.

        The tensor stays on its device, to avoid a GPU synchronisation. The list of checks is
        cleared.
        """
        self._compare()
        single, errors, verdicts = self._single, self._errors, self._verdicts
        self._single, self._errors, self._verdicts = [], [], [[]]
        if single:
            device = single[0].device  # layers may be on several devices
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
        """Check that `error(*tensors)` does not exceed `bar`.

        Checks with the same `error` and tensors of the same shapes are stacked, so `error` receives
        tensors with an additional first axis, and must return one number for each of its entries.
        """
        group_key = (error, *[(tensor.shape, tensor.dtype, tensor.device) for tensor in tensors])
        group = self._waiting.get(group_key)
        if group is None:
            group = self._waiting[group_key] = _Group([], [])
        self._count += 1
        group.tensors.append(tensors)
        group.verdicts.append((self._count, bar, failure))
        self._size += sum(map(torch.numel, tensors))
        if self._size > MOST_HELD:
            self._compare()

    def _compare(self) -> None:
        waiting, self._waiting, self._size = self._waiting, {}, 0
        for (error, *_), group in waiting.items():
            assert callable(error)
            columns = zip(*group.tensors, strict=True)
            self._errors.append(error(*(torch.stack(column) for column in columns)))
            self._verdicts.append(group.verdicts)


def raise_if_true(errors: Sequence[float], verdicts: Sequence[Verdict]) -> None:
    """Raise the exception of the first check whose error exceeds its limit.

    NaN exceeds every limit. Processes that share a model first agree on the errors, so that either
    all of them raise or none.
    """
    errors = agree_on_errors(list(errors))
    wrong = [
        (number, failure, error)
        for error, (number, bar, failure) in zip(errors, verdicts, strict=True)
        if not error <= bar
    ]
    if wrong:
        _, failure, error = min(wrong, key=operator.itemgetter(0))
        raise failure(error)


_open: contextvars.ContextVar[DeferredChecks | None] = contextvars.ContextVar(
    "mixlens_deferred_checks", default=None
)


@contextlib.contextmanager
def checks_wait(deferred: DeferredChecks | None = None) -> Iterator[None]:
    """Defer all calls of `require_small` while the context is open.

    If you pass `deferred`, call its `settle` method before you return a score. Otherwise the checks
    run when the outermost context closes.
    """
    before = _open.get()
    if deferred is None and before is not None:
        yield
        return
    checks = DeferredChecks() if deferred is None else deferred
    token = _open.set(checks)
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            checks.settle()  # computations with wrong numbers may fail in any way
        raise
    finally:
        _open.reset(token)
    if deferred is None:
        checks.settle()


def waiting_for(*tensors: Tensor) -> DeferredChecks | None:
    """Return the deferred checks of the open `checks_wait` context, to which these tensors can be
    added.

    Return None if no context is open, or if the tensors are too large to keep. They must then be
    checked immediately.
    """
    return _open.get() if max(map(torch.numel, tensors)) <= _SMALL else None


def require_small(error: Tensor, bar: float, failure: Failure) -> None:
    """Raise if an error exceeds its limit.

    Inside a `checks_wait` context, the comparison is deferred until the checks are settled.
    """
    deferred = _open.get()
    if deferred is not None:
        deferred.error_is_small(error, bar, failure)
    else:
        raise_if_true([float(error)], [(0, bar, failure)])


def not_finite(layer: str, output: Tensor) -> NonFiniteActivations:
    """Return the exception for a layer that returned NaN or infinity."""
    advice = "Check the weights"
    if output.element_size() < 4:
        advice += ", or load the model in a wider dtype (float32)"
    elif len(output) > 1:
        advice += ", or measure the texts one at a time: padding may be the cause"
    return NonFiniteActivations(f"layer {layer} returned NaN or infinity. {advice}.")


def row_errors(rows: Tensor, expected: Tensor, *summands: Tensor) -> Tensor:
    """Return the largest relative error of any row, for each entry of the first axis.

    The error is relative to the size of the expected row. If the row is a sum of `summands`, this
    size is set to at least a thousandth of the size of each summand, because a smaller sum may be
    nothing but rounding error.
    """
    expected = expected.to(rows)
    sizes = row_sizes(expected)
    for part in summands:
        sizes = torch.maximum(sizes, 1e-3 * row_sizes(part.to(rows)))
    errors = row_sizes(rows - expected) / sizes.clamp_min(torch.finfo(sizes.dtype).tiny)
    return errors.flatten(1).amax(1)


def _not_finite(rows: Tensor) -> Tensor:
    """Return 1 for entries that contain NaN or infinity, else 0.

    Only the largest and the smallest number are tested, because `isfinite` on all numbers would
    take 20 times as long.
    """
    numbers = rows.flatten(1)
    return 1 - (numbers.amax(1).isfinite() & numbers.amin(1).isfinite()).float()
