"""The log and `mixlens doctor` report slow paths with the reason."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mixlens import Lens
from mixlens.cli import app
from mixlens.measuring.verifying import slow_paths
from tests.conformance import zoo
from tests.conformance.zoo import built

REASONS = {
    "bert": None,
    "gpt2": None,
    "gpt-neox": None,  # a parallel block: its output is a sum
    "bloom": "runs in reverse mode, because the layer has no forward derivative",
    "mixtral": "the layer's own code, because the rest of the layer after its attention is not",
}


@pytest.mark.parametrize("name", REASONS)
def test_which_layers_are_run_in_a_slower_way(name: str, caplog: pytest.LogCaptureFixture) -> None:
    recording = Lens(built(name)).record(zoo.inputs(name))
    with caplog.at_level(logging.DEBUG, logger="mixlens"):
        slower = slow_paths(recording)
    reason = REASONS[name]
    if reason is None:
        assert slower == {}
        assert caplog.text == ""
    else:
        assert list(slower) == [layer.structure.path for layer in recording.layers()]
        assert all(reason in text for text in slower.values())
        assert reason in caplog.text


def test_rows_that_depend_on_each_other_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = Lens(built("bert")).record(zoo.inputs("bert"))
    monkeypatch.setattr("mixlens.replay.layer_rest.find_shortcuts", lambda layer: [None])
    monkeypatch.setattr("mixlens.replay.folding._matrices_of", lambda *given: 1 / 0)
    for text in slow_paths(recording).values():
        assert (
            "runs whole sequences, because the rest of the layer does not work on single tokens"
            in text
        )
        assert "cannot be folded into matrices" in text


def test_doctor_shows_them(tmp_path: Path) -> None:
    built("bloom").save_pretrained(tmp_path)
    output = CliRunner().invoke(app, ["doctor", str(tmp_path)]).output
    assert "slower       `h` 0, 1: hidden token attribution runs in reverse" in output
