"""Every experiment runs on a small model, writes its files, and uses the names of the published
numbers.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

import pandas as pd
import pytest

from mixlens.errors import InvalidInput
from mixlens.papers import experiments, module, names, papers, resolve_experiment
from mixlens.papers.reproduction import reproduce
from tests.papers.settings import COARSE, FAST, data_of, lens_for, run_paper


@pytest.fixture(scope="module", params=papers())
def finished(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """Every experiment of a paper, run on a few texts."""
    out = tmp_path_factory.mktemp(request.param)
    run_paper(request.param, out)
    return request.param, out


def test_each_runs_and_keeps_what_it_found(finished: tuple[str, Path]) -> None:
    paper, out = finished
    for name in names():
        if not name.startswith(f"{paper}/"):
            continue
        spec, folder = module(name).SPEC, out / name.replace("/", "_")
        result = json.loads((folder / "result.json").read_text())
        assert result["settings"]["experiment"] == name
        for file in result["tables"]:
            assert len(pd.read_csv(folder / file)) > 0, (name, file)
        for file in result["figures"]:
            assert "<svg" in (folder / file).read_text()[:2000], (name, file)
        assert spec.title in (folder / "README.md").read_text()
        assert escape(spec.title) in (folder / "report.html").read_text()
        assert not result["skipped"], (name, result["skipped"][:3])


def test_measured_numbers_go_by_the_names_of_the_published_ones(finished: tuple[str, Path]) -> None:
    paper, out = finished
    for name, spec in experiments().items():
        if name.startswith(f"{paper}/"):
            result = json.loads((out / name.replace("/", "_") / "result.json").read_text())
            assert set(spec.published) <= set(spec.models), name
            for numbers in spec.published.values():
                assert set(numbers) <= set(result["numbers"]), name
            assert all(pair["published"] is None for pair in result["numbers"].values()), (
                "not the paper's own model"
            )


def test_a_finished_experiment_is_not_run_again(finished: tuple[str, Path]) -> None:
    paper, out = finished
    name = next(name for name in names() if name.startswith(f"{paper}/"))
    spec = module(name).SPEC
    data = data_of(name)
    again = reproduce(
        name, lens_for(spec.needs), data, out=out, measure_options=COARSE, **FAST.get(name, {})
    )
    assert again.outcome is None
    with pytest.raises(InvalidInput, match="seed"):
        reproduce(
            name,
            lens_for(spec.needs),
            data,
            out=out,
            measure_options=COARSE,
            seed=1,
            **FAST.get(name, {}),
        )


def test_every_row_of_the_papers_is_there() -> None:
    wanted = {
        "brunner2020": (
            "fig1a fig1bc fig5 fig6 fig2a fig2b fig8 fig9 fig10 fig7 fig11 fig12 fig13 fig14 fig15"
            " fig16 fig17 fig3a fig3b fig4 fig18 fig19 fig20 fig21 fig22 fig23 fig24 fig25 fig26"
            " fig27 fig28 fig29 fig30 fig31 fig32 fig33 fig34 fig35 fig36 fig37 appD"
        ),
        "kobayashi2020": (
            "table1 table4 fig3 table2 fig4 fig5 fig10 fig11 fig12 fig6 fig9 table3 fig7 fig8 fig13"
            " fig14 fig15 fig16 fig17"
        ),
        "ferrando2022": (
            "table2 fig3 fig6 fig7 fig5 fig8 fig9 fig10 table1 table3 table4 table5 table6 table7"
            " table8 table9"
        ),
        "ferrando2023": "mrr",
        "mohebbi2023": (
            "data fig1 fig2 figA3 figA4 figA1 figA2 fig3 table2 table3 fig4 figA5 figA18"
        ),
    }
    for paper, parts in wanted.items():
        for part in parts.split():
            assert resolve_experiment(f"{paper}/{part}") in names()


@pytest.mark.smoke
def test_specs_are_complete() -> None:
    for name, spec in experiments().items():
        assert all((spec.title, spec.finding, spec.data, spec.cost)), name
        kinds = ("any", "masked", "causal", "language", "classifier", "translation", "speech")
        assert spec.needs in kinds, name
