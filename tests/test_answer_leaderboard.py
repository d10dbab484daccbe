"""The page on answers: its numbers are those of the cells, and its marks are those of tests."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from docs import answer_leaderboard as board
from docs.answer_leaderboard_text import BASELINES, MODELS
from mixlens.evaluating.statistics import difference_p
from mixlens.measures import names as measure_names
from training.leaderboard import answers, workers
from training.leaderboard.document_methods import METHODS


def line(number: int, scores: dict[str, list[float]], *, counts: bool = True) -> str:
    """A line as `training.leaderboard.answers` writes it: the second document is the evidence."""
    methods = {name: {"scores": each, "seconds": 0.1} for name, each in scores.items()}
    record: dict[str, Any] = {
        "name": f"fact-en-3-0:{number}",
        "answered": True,
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
    lines = []
    for number, draw in enumerate(chance):
        scores = {"alti": [0.1, 0.8, 0.1], "attention": [0.5, 0.3, 0.2], "random": draw}
        scores |= {"first": [0, -1, -2], "context_cite": [0.0, 1.0, 2.0]} if number < 5 else {}
        lines.append(line(number + 2, scores))
    lines = [*lines[::-1], line(1, {}, counts=False), line(43, scores)]  # 42 is missing
    (tmp_path / "Some-Model-1B-fact-documents-3.jsonl").write_text("\n".join(lines))
    (tmp_path / "costs-Some-Model-1B.json").write_text(json.dumps({"alti": 1.4}))
    assert board.taken(tmp_path) == 1
    (only,) = board.cells()
    return only


def test_lines_become_a_cell(cell: board.Cell) -> None:
    assert (cell["model"], cell["task"], cell["documents"]) == ("Some-Model-1B", "fact", 3)
    assert (cell["tried"], cell["answered"], cell["counted"]) == (41, 41, 40)
    assert board.values(cell, "alti").tolist() == [1.0] * 40
    assert board.values(cell, "attention").tolist() == [0.5] * 40
    assert board.values(cell, "attention", "first").tolist() == [0.0] * 40
    assert np.isnan(board.values(cell, "first")).sum() == 35
    assert board.costs() == {"Some-Model-1B": {"alti": 1.4}}


def test_later_prompts_are_added_to_a_kept_cell(cell: board.Cell, tmp_path: Path) -> None:
    path = tmp_path / "Some-Model-1B-fact-documents-3.jsonl"
    whole = (board.CELLS / f"{path.stem}.json").read_text()
    lines = sorted(path.read_text().splitlines(), key=lambda each: json.loads(each)["name"])
    lines = sorted(lines, key=lambda each: int(json.loads(each)["name"].rpartition(":")[2]))
    path.write_text("\n".join(lines[:10]))
    board.taken(tmp_path)
    (kept,) = board.cells()
    assert kept["tried"] == 10
    settings = Namespace(counted=12, removal=0, most=60, methods="random", kept=board.CELLS)
    queue = answers.Cell("generated:fact?documents=3", tmp_path / path.name, settings)
    assert (queue.checked, queue.counted) == (10, 9)
    job = queue.next_job()
    assert job is not None
    assert job[1][0][0].name == "fact-en-3-0:11"
    path.write_text("\n".join(lines[11:]))  # the next prompt is missing
    board.taken(tmp_path)
    assert board.cells() == [kept]
    path.write_text("\n".join(lines[10:]))
    for _ in range(2):  # the second time there is nothing to add
        board.taken(tmp_path)
        assert board.cells() == [cell]
    assert (board.CELLS / f"{path.stem}.json").read_text() == whole


def test_files_name_their_cell() -> None:
    model = "SmolLM2-135M-Instruct"
    assert board._parts(f"{model}-two_hop-documents-8") == (model, "two_hop", 8, "en")
    assert board._parts(f"{model}-fact-documents-16-language-de") == (model, "fact", 16, "de")


def chosen(counted: int, removal: int = 1) -> Namespace:
    return Namespace(counted=counted, removal=removal, most=12, methods="random,last", kept=None)


def finish(cell: answers.Cell, right: set[int]) -> list[tuple[int, int]]:
    """Do the jobs of a cell, the last one first. Return number and methods of scored prompts."""
    scored = []
    while jobs := list(iter(cell.next_job, None)):
        for job in reversed(jobs):
            if job[0] is answers.check:
                names = [prompt.name for prompt in job[1][0]]
                counts = [int(name.rpartition(":")[2]) in right for name in names]
                cell.take(
                    job, [{"name": n, "counts": c} for n, c in zip(names, counts, strict=True)]
                )
            else:
                prompt, record, methods = job[1]
                scored.append((int(prompt.name.rpartition(":")[2]), len(methods)))
                cell.take(job, {**record, "methods": {}})
    return sorted(scored)


def test_the_first_prompts_that_count_are_scored(tmp_path: Path) -> None:
    path = tmp_path / "M-fact-documents-2.jsonl"
    right = {2, 3, 5, 7}
    cell = answers.Cell("generated:fact?documents=2", path, chosen(2))
    assert finish(cell, right) == [(2, 5), (3, 2)]  # the dear methods on the first one
    assert cell.finished
    assert {each["name"].rpartition(":")[2] for each in lines_of(path)} == {"1", "2", "3"}
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))  # 2 is lost
    cell = answers.Cell("generated:fact?documents=2", path, chosen(4))
    assert not cell.finished
    assert finish(cell, right) == [(2, 5), (5, 2), (7, 2)]
    assert cell.finished
    assert {int(each["name"].rpartition(":")[2]) for each in lines_of(path)} == set(range(1, 8))


def test_a_cell_waits_for_scores_that_are_not_written(tmp_path: Path) -> None:
    cell = answers.Cell("generated:fact?documents=2", tmp_path / "M.jsonl", chosen(1))
    job = cell.next_job()
    assert job is not None
    cell.take(job, [{"name": job[1][0][0].name, "counts": True}])
    score = cell.next_job()
    assert score is not None
    assert cell.next_job() is None
    assert not cell.finished
    cell.take(score, {**score[1][1], "methods": {}})
    assert cell.finished


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(each) for each in path.read_text().splitlines()]


def test_workers_score_and_stop_in_time(tmp_path: Path) -> None:
    path = tmp_path / "M-plain_fact-documents-2.jsonl"
    settings = Namespace(
        counted=1, removal=0, most=30, methods="attention,leave_one_out", kept=None
    )
    model = "mixlens/bundled/causal"
    cells = [answers.Cell("generated:plain_fact?documents=2", path, settings)]
    assert not workers.run_all(list(cells), model, "cpu", 1, minutes=0)
    assert not path.exists()
    assert workers.run_all(list(cells), model, "cpu", 2, minutes=None)
    (counted,) = (each for each in lines_of(path) if each["counts"])
    assert counted["methods"].keys() == {"attention", "leave_one_out"}
    assert len(counted["methods"]["attention"]["scores"]) == 2


def test_marks_are_paired_tests(cell: board.Cell) -> None:
    marks = board.signs([cell])
    assert board.best_of([cell]) == "alti"
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
        methods = cell["methods"].keys()
        assert methods <= {*measure_names(), *METHODS}
        assert 0 <= cell["counted"] <= cell["answered"] <= cell["tried"]
        assert not methods if cell["counted"] == 0 else set(BASELINES) <= methods
        assert cell["model"] in MODELS


def cell_of(task: str, documents: int, ranks: dict[str, list[float]], tried: int = 60) -> Any:
    """A cell with these reciprocal ranks."""
    methods = {
        name: {"rank": each, "first": [float(rank == 1) for rank in each]}
        for name, each in ranks.items()
    }
    counted = max((len(each) for each in ranks.values()), default=0)
    return {
        "model": "Some-Model-1B",
        "task": task,
        "documents": documents,
        "language": "en",
        "tried": tried,
        "answered": counted,
        "counted": counted,
        "methods": methods,
    }


def test_cells_have_equal_weights() -> None:
    small = cell_of("fact", 4, {"alti": [1.0] * 10, "random": [0.5] * 10})
    large = cell_of("fact", 8, {"alti": [0.5] * 90, "random": [0.5] * 90, "attention": [1.0] * 30})
    group = [small, large]
    assert board.mean(group, "alti") == 0.75
    assert board.interval(group, "alti") == (0.75, 0.75)
    assert board.gaps_of(group, "alti", "random").sum() == pytest.approx(0.5)
    assert board.p_of(group, "alti", "random") == pytest.approx(2 / 2**10, abs=0.002)
    assert board.p_of([large], "alti", "random") == 1.0
    assert board.best_of(group) == "alti"  # attention is missing in one of the cells
    assert board.best_of([large]) == "alti"  # and ran on less than half of the prompts


def test_gaps_of_one_size_are_drawn_together() -> None:
    gaps = np.random.default_rng(0).choice([-0.5, -0.25, 0.0, 0.25, 0.5], 60) + 0.05
    expected = difference_p(gaps, np.zeros_like(gaps))
    assert 0.05 < expected < 0.95
    assert board.sign_flip_p(gaps) == pytest.approx(expected, abs=0.02)


def test_numbers_that_follow_from_others_are_left_out(cell: board.Cell) -> None:
    assert cell["methods"]["alti"].keys() == {"rank", "first"}
    assert board.values(cell, "attention", "recall").tolist() == [0.0] * 40
    assert board.values(cell, "attention", "sink").tolist() == [0.5] * 40
    assert np.isnan(board.values(cell, "attention", "tokens")).all()


def test_a_task_that_the_model_cannot_do_has_only_an_accuracy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(board, "COSTS", tmp_path / "costs.json")
    board.COSTS.write_text("{}")
    ranks = dict.fromkeys(("alti", "random", "first", "last", "lexical"), [1.0] * 20)
    known = [cell_of("two_hop", 4, ranks), cell_of("variables", 4, {}, tried=100)]
    assert board.usable(known) == known[:1]
    text = board.accuracy(known)
    assert "| Some-Model-1B | two_hop | 33% of 60, 20 count |" in text
    assert "| Some-Model-1B | variables | 0% of 100, 0 count ✗ |" in text
    marks = board.marks_of(known[:1])
    assert "variables" not in board.overview(known[:1], marks)
    assert list(board.commands(known))[1].endswith('--data "generated:variables?documents=4"')
