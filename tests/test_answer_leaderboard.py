"""The page on answers: its numbers are those of the cells, and its marks are those of tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from docs import answer_leaderboard as board
from mixlens.evaluating.document_methods import METHODS
from mixlens.measures import names as measure_names


def line(number: int, scores: dict[str, list[float]], *, counts: bool = True) -> str:
    """A line as `training.leaderboard.answers` writes it: the second document is the evidence."""
    methods = {name: {"scores": each, "seconds": 0.1} for name, each in scores.items()}
    record: dict[str, Any] = {
        "name": f"fact:{number}",
        "counts": counts,
        "tokens": 40,
        "evidence": [1],
        "documents": 3,
    }
    return json.dumps(record | ({"methods": methods} if counts else {}))


@pytest.fixture
def cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> board.Cell:
    monkeypatch.setattr(board, "CELLS", tmp_path / "cells")
    monkeypatch.setattr(board, "COSTS", tmp_path / "cells" / "costs.json")
    monkeypatch.setattr(board, "HEADS", tmp_path / "cells" / "heads.json")
    chance = np.random.default_rng(0).random((40, 3)).tolist()
    lines = [line(0, {}, counts=False)]
    for number, draw in enumerate(chance):
        scores = {"alti": [0.1, 0.8, 0.1], "attention": [0.5, 0.3, 0.2], "random": draw}
        scores |= {"first": [0, -1, -2], "context_cite": [0.0, 1.0, 2.0]} if number < 5 else {}
        lines.append(line(number, scores))
    (tmp_path / "Some-Model-1B-fact-documents-3.jsonl").write_text("\n".join(lines))
    (tmp_path / "costs-Some-Model-1B.json").write_text(json.dumps({"alti": 1.4}))
    assert board.taken(tmp_path) == 1
    (only,) = board.cells()
    return only


def test_lines_become_a_cell(cell: board.Cell) -> None:
    assert (cell["model"], cell["task"], cell["documents"]) == ("Some-Model-1B", "fact", 3)
    assert (cell["tried"], cell["counted"]) == (41, 40)
    assert board.values(cell, "alti").tolist() == [1.0] * 40
    assert board.values(cell, "attention").tolist() == [0.5] * 40
    assert board.values(cell, "attention", "first").tolist() == [0.0] * 40
    assert np.isnan(board.values(cell, "first")).sum() == 35
    assert board.costs() == {"Some-Model-1B": {"alti": 1.4}}


def test_a_run_continues_a_cell(cell: board.Cell, tmp_path: Path) -> None:
    (file,) = tmp_path.glob("*.jsonl")
    scores = {"alti": [0.5, 0.3, 0.2], "random": [0.1, 0.2, 0.3]}
    later = [line(42, scores), line(43, {}, counts=False), line(44, scores)]
    file.write_text("\n".join(later))
    board.taken(tmp_path)
    (longer,) = board.cells()
    assert (longer["task"], longer["tried"], longer["counted"]) == ("fact", 44, 42)
    assert board.values(longer, "alti").tolist() == [1.0] * 40 + [0.5] * 2
    assert np.isnan(board.values(longer, "attention")).tolist() == [False] * 40 + [True] * 2
    with pytest.raises(ValueError, match="has 44 prompts, but the run begins at prompt 42"):
        board.taken(tmp_path)


def test_marks_are_paired_tests(cell: board.Cell) -> None:
    marks = board.signs(cell)
    assert board.best_of(cell) == "alti"
    assert marks["alti"] == "★"
    assert marks["attention"] == "○"  # below random on average
    assert marks["context_cite"] == "≈○"  # five prompts do not tell
    text = board.table(cell)
    assert "| `alti` | 40 | 1.00 ★ | 1.00 to 1.00 | 1.00 | 1.00 |  | 1.00 | 1.4 |" in text
    assert text.index("`attention`") < text.index("`random`") < text.index("`first`")


def test_every_cell_has_the_baselines() -> None:
    known = board.cells()
    assert known
    for cell in known:
        assert {"random", "first", "last", "lexical"} <= cell["methods"].keys()
        assert cell["methods"].keys() <= {*measure_names(), *METHODS}
        assert 0 < cell["counted"] <= cell["tried"]
