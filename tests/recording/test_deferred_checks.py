"""Deferred checks: no number is read before they are settled, and none is lost."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from mixlens import Lens, measure
from mixlens.errors import InvalidInput, UnsupportedModel
from mixlens.recording import rebuilding
from mixlens.recording.deferred_checks import (
    DeferredChecks,
    checks_wait,
    not_finite,
    require_small,
    row_errors,
    waiting_for,
)
from tests.conformance.zoo import built, inputs


def _require(error: float, name: str = "") -> None:
    require_small(torch.tensor(error), 1.0, lambda size: UnsupportedModel(f"{name} {size:.0f}"))


def test_without_a_context_an_error_is_raised_at_once() -> None:
    _require(1.0)
    for error in (2.0, torch.nan):
        with pytest.raises(UnsupportedModel):
            _require(error)


def test_checks_are_settled_when_the_outermost_context_closes() -> None:
    done = []

    def check() -> None:
        with checks_wait():
            with checks_wait():
                _require(0.5, "first")
                _require(3.0, "second")
            _require(4.0, "third")
            done.append("third")

    with pytest.raises(UnsupportedModel, match="second 3"):
        check()
    assert done == ["third"]


def test_the_caller_settles_its_own_deferred_checks() -> None:
    deferred = DeferredChecks()
    with checks_wait(deferred):
        _require(torch.nan, "lost")
    with pytest.raises(UnsupportedModel, match="lost nan"):
        deferred.settle()
    deferred.settle()  # each doubt once


@pytest.mark.parametrize(
    ("size", "raised", "reported"),
    [
        (2.0, InvalidInput("a consequence"), UnsupportedModel),
        (0.0, InvalidInput("something else"), InvalidInput),
        (2.0, MemoryError(), MemoryError),
    ],
)
def test_failures_from_wrong_numbers_are_reported_as_such(
    size: float, raised: Exception, reported: type[Exception]
) -> None:
    def fail() -> None:
        with checks_wait():
            _require(size)
            raise raised

    with pytest.raises(reported):
        fail()


def test_small_tensors_wait_for_those_of_other_layers_and_the_first_wrong_one_is_raised() -> None:
    rows, deferred = torch.ones(2, 3), DeferredChecks()
    assert waiting_for(rows) is None  # nobody waits
    with checks_wait(deferred):
        assert waiting_for(rows) is deferred
        assert waiting_for(rows, rows.expand(2**20, 2, 3)) is None  # too many to be copied
        for number, factor in enumerate((1.0, 1.5, 2.0)):
            failure = functools.partial(_failure, number)
            deferred.stacked_error_is_small(row_errors, (rows, factor * rows), 0.1, failure)
            _require(3.0 if factor == 2.0 else 0.0, "later")
    with pytest.raises(UnsupportedModel, match="layer 1"):
        deferred.settle()


def _failure(number: int, error: float) -> UnsupportedModel:
    return UnsupportedModel(f"layer {number}: {error:.1f}")


@pytest.mark.parametrize("waiting", [False, True])
def test_a_projection_that_was_changed_is_refused_at_once_or_when_checks_are_settled(
    waiting: bool,
) -> None:
    model = built("bert")
    recording, deferred = Lens(model).record(inputs("bert")), DeferredChecks()
    # Compare samples of the weights only, and change a number between them.
    assert recording.state is not None
    recording.state = dataclasses.replace(recording.state, contents=None)
    model.encoder.layer[1].attention.output.dense.weight.data[0, 1] += 1
    if not waiting:
        with pytest.raises(UnsupportedModel, match="rebuilt output projection is off"):
            measure("attention", recording)
        return
    with checks_wait(deferred):
        measure("attention", recording)
    with pytest.raises(UnsupportedModel, match="rebuilt output projection is off"):
        deferred.settle()


@pytest.mark.parametrize("ended", [UnsupportedModel, KeyboardInterrupt])
def test_layers_are_compared_again_after_a_measure_that_failed_or_was_interrupted(
    monkeypatch: pytest.MonkeyPatch, ended: type[BaseException]
) -> None:
    recording = Lens(built("bert")).record(inputs("bert"))
    monkeypatch.setattr(rebuilding, "rounding", lambda _: -1.0)  # every layer is wrong

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if ended is KeyboardInterrupt:
            patch.setattr(DeferredChecks, "settle", interrupt)
        with pytest.raises(ended):
            measure("attention", recording)
    for layers in ([1], None):
        with pytest.raises(UnsupportedModel, match="is off"):
            measure("attention", recording, layers=layers)


@pytest.mark.parametrize(
    ("dtype", "texts", "advice"),
    [
        (torch.float16, 2, "Check the weights, or load the model in a wider dtype (float32)."),
        (torch.float64, 2, "Check the weights, or measure the texts one at a time: padding may be"),
        (torch.float64, 1, "Check the weights."),
    ],
)
def test_advice_fits_the_precision(dtype: torch.dtype, texts: int, advice: str) -> None:
    assert advice in str(not_finite("`layers.0`", torch.zeros(texts, 3, 4, dtype=dtype)))


@pytest.mark.parametrize("name", ["attention", "attention_norm", "alti"])
def test_a_call_waits_for_its_checks_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for the recording and once for the measure."""
    waits: list[int] = []
    compared = DeferredChecks.compare

    def count(deferred: DeferredChecks) -> tuple[torch.Tensor, Sequence[Any]]:
        errors, verdicts = compared(deferred)
        waits.append(len(verdicts))
        return errors, verdicts

    model, given = built("bert"), inputs("bert", torch.float32)
    lens = Lens(model)
    lens.measure_batch(name, given)
    monkeypatch.setattr(DeferredChecks, "compare", count)
    for measured in (lens.measure, lens.measure_batch):
        waits.clear()
        measured(name, given)
        assert len(waits) == 1
        assert waits[0] > len(model.encoder.layer)
