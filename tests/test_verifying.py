"""`lens.verify` reports damaged and unsupported layers."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import mixlens
from mixlens import Lens
from mixlens.recording import verification
from tests.conformance.zoo import built, inputs


@pytest.mark.parametrize("path", ["lm_head", "model.norm"])
def test_damage_behind_the_last_layer_is_named(path: str) -> None:
    model = built("llama", head=True)
    with torch.no_grad():
        model.get_submodule(path).weight.view(-1)[0] = float("nan")
    with pytest.raises(mixlens.NonFiniteActivations, match=rf"`{path}\.weight` contain NaN"):
        Lens(model).verify(inputs("llama"))


def test_memory_that_runs_out_in_the_native_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_out(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(verification, "native_calls", run_out)
    with pytest.raises(mixlens.OutOfMemory, match="memory ran out: a recording"):
        Lens(built("bert")).verify(inputs("bert"))


def test_errors_are_reported_although_measures_deferred_their_checks() -> None:
    report = Lens.bundled().verify()
    (stack,) = report.stacks
    assert len(stack.errors) == stack.layers
    assert all(0 < error < report.tolerance for error in stack.errors)


def test_the_largest_error_of_all_layers_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = iter([1e-9, 3e-9])
    monkeypatch.setattr(verification, "_native_error", lambda *_: next(errors))
    assert Lens(built("llama", head=True)).verify(inputs("llama")).native_error == 3e-9
    errors = iter([3e-9, 1e-9])
    assert Lens(built("llama", head=True)).verify(inputs("llama")).native_error == 3e-9
