"""Experiments of one run share observations and maps."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from mixlens import Lens
from mixlens.datasets import Example
from mixlens.evaluating.case import Case
from mixlens.maps.mixing_maps import MixingMaps
from mixlens.papers.questions import Asker, Memory
from mixlens.papers.reproduction import reproduce
from tests.papers.settings import COARSE, dataset_for, lens_for

TEXT = Example(name="x", text="The keys are old .")


def _asked(memory: Memory, lens: Lens, other: Lens, number: int) -> list[MixingMaps]:
    """A question that no other is the same as; what it was given, under both models."""
    given: list[MixingMaps] = []

    def question(case: Case, *, number: int) -> int:
        given.extend(each.maps("attention") for each in (case, case.under(other)))
        return number

    Asker(lens, {"q": partial(question, number=number)}, {}, memory)(TEXT)
    return given


def test_a_measure_is_computed_once_for_different_questions() -> None:
    lens, other = Lens.bundled(), Lens.bundled()
    memory = Memory()
    first, again = (_asked(memory, lens, other, number) for number in range(2))
    assert [a is b for a, b in zip(first, again, strict=True)] == [True, True]
    kept = memory.case(lens, TEXT, {})
    assert not any("recording" in vars(case) for case in (kept, kept.under(other)))
    assert memory.case(lens, TEXT, {"random": {"seed": 1}}) is not kept


def test_results_beyond_the_budget_are_dropped() -> None:
    lens, other = Lens.bundled(), Lens.bundled()
    size = 2 * Case(lens, TEXT).maps("attention").scores.nbytes
    for budget, shared in ((size + 200, True), (size - 1, False)):
        memory = Memory(budget)
        first, again = (_asked(memory, lens, other, number) for number in range(2))
        assert (first[0] is again[0]) == shared, budget


def test_numbers_are_the_same_whether_shared_or_not(tmp_path: Path) -> None:
    lens, data, memory = lens_for("language"), dataset_for("agreement", 1, "language"), Memory()
    results: list[dict[str, Any]] = []
    for kept in (memory, None):
        for name in ("mohebbi2023/figA2", "mohebbi2023/fig1"):
            out = tmp_path / str(kept is None)
            done = reproduce(name, lens, data, out=out, memory=kept, measure_options=COARSE)
            assert done.folder is not None
            table = (done.folder / "by_layer.csv").read_text()
            results.append({"table": table, **json.loads(json.dumps(done.result))})
    assert results[:2] == results[2:]
