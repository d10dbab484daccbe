"""An experiment that was stopped resumes with the next text and ends with the same numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mixlens.errors import InvalidInput
from mixlens.papers.reproduction import reproduce
from tests.papers.settings import dataset_for, lens_for

NAME = "kobayashi2020/fig4"


class _Stopped(Exception):
    pass


def _numbers(folder: Path) -> dict[str, Any]:
    result = json.loads((folder / "result.json").read_text())
    return {"result": result, "table": (folder / "pairs.csv").read_text()}


def test_goes_on_text_by_text(tmp_path: Path) -> None:
    lens, data = lens_for("any"), dataset_for("text", 4)
    whole = reproduce(NAME, lens, data, out=tmp_path / "whole")
    assert whole.folder is not None
    out, steps = tmp_path / "stopped", []

    def stop(done: int, total: int, before: int) -> None:
        if done == 2:
            raise _Stopped

    with pytest.raises(_Stopped):
        reproduce(NAME, lens, data, out=out, progress=stop)
    unfinished = out / ".kobayashi2020_fig4.unfinished"
    assert (unfinished / "journal.jsonl").read_bytes().count(b"\n") == 2
    with pytest.raises(InvalidInput, match="seed was 0, now 1"):
        reproduce(NAME, lens, data, out=out, seed=1)
    again = reproduce(NAME, lens, data, out=out, progress=lambda *counts: steps.append(counts))
    assert again.folder is not None
    assert steps[0] == (2, 4, 2)
    assert _numbers(again.folder) == _numbers(whole.folder)
    assert not unfinished.exists()


def test_a_second_model_is_not_part_of_what_does_not_compare() -> None:
    lens, data = lens_for("any"), dataset_for("text", 2)
    settings = reproduce(NAME, lens, data, other=lens_for("any", 1)).result["settings"]
    assert settings["other_model"] is settings["other_weights"] is None
