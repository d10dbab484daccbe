"""Reports of rankings at their limits: nothing to rank, a measure that is not judged, a narrow
terminal. What is not there leaves no heading, and what is there is in every form.
"""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from mixlens.benchmark.plan import Plan
from mixlens.benchmark.ranking import Ranking, rank
from mixlens.benchmark.report.files import write_files
from mixlens.benchmark.report.markdown import write_markdown
from mixlens.benchmark.report.page import page
from mixlens.benchmark.report.terminal import show
from mixlens.benchmark.report.wording import charts_of
from mixlens.evaluations import Result, evaluations
from tests.benchmark.test_standings import TEXTS, column, findings, made_up

SETTINGS = {"model": "m", "data": "d"}


def shown(ranking: Ranking, width: int) -> str:
    written = io.StringIO()
    show(ranking, Console(file=written, width=width, no_color=True))
    return written.getvalue()


def test_nothing_to_rank(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    ranking = rank(findings(), Plan(measures=()), TEXTS, SETTINGS)
    assert charts_of(ranking) == {}
    for written in (write_markdown(ranking, {}), page(ranking, {}), shown(ranking, 80)):
        assert "nothing to rank" in written
        assert "Ranked measures" not in written
        assert "About the model" not in written
    write_files(tmp_path, ranking, [{"example": "x", "observations": []}], "")
    assert not (tmp_path / "plots").exists()


def test_a_measure_without_a_value_and_what_is_known_of_the_model() -> None:
    pytest.importorskip("matplotlib")
    values = made_up()
    without_poor = {name: value for name, value in values.items() if name not in ("poor", "random")}
    spec = evaluations()["probing"]
    probed = Result.of(spec, [2.0], details={"layers": [1.0, 1.5, 2.5], "uniform_bits": 12.0})
    results = replace(
        findings(
            column("cue_alignment", values),
            column("erasure", without_poor),
            of_model={"probing": probed},
        ),
        left_out={"alti": "it does not apply"},
    )
    ranking = rank(results, Plan(measures=tuple(values)), TEXTS, SETTINGS)
    charts = charts_of(ranking)
    assert set(charts) == {"Mean rank", "Every evaluation"}, "no layers were seen"
    made, text = page(ranking, charts), write_markdown(ranking, {})
    assert 'title="no value"' in made
    for written in (made, text):
        assert "bits of a uniform code: 12" in written
        assert "it does not apply" in written
    assert "input: 1, 0: 1.5, 1: 2.5" in text, "states are the input and the output of each layer"
    narrow, wide = shown(ranking, 50), shown(ranking, 200)
    assert "left out: alti: it does not apply" in wide
    assert narrow.count("good") > wide.count("good"), "the measures are named in each part"
