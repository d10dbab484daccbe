"""Every experiment runs on a small model, keeps its files, and names its numbers as the paper's are named."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from mixlens.experiments import experiments, module, names, resolved
from mixlens.experiments._reproduce import reproduce
from tests.experiments.settings import dataset_for, lens_for

TEXTS = 20
# Where the protocol trains probes or needs many texts: the smallest setting that still runs.
FAST: dict[str, dict[str, object]] = {}


@pytest.mark.parametrize("name", names())
def test_runs_and_keeps_what_it_found(name: str, tmp_path: Path) -> None:
    spec = module(name).SPEC
    options = FAST.get(name, {})
    other = lens_for(spec.needs, 1) if spec.compares else None
    data = dataset_for(spec.kinds[0], TEXTS) if spec.kinds else None
    done = reproduce(name, lens_for(spec.needs), data, out=tmp_path, other=other, **options)
    assert done.folder is not None
    result = json.loads((done.folder / "result.json").read_text())
    assert result["settings"]["experiment"] == name
    for file in result["tables"]:
        assert len(pd.read_csv(done.folder / file)) > 0, file
    for file in result["figures"]:
        assert "<svg" in (done.folder / file).read_text()[:2000], file
    for numbers in spec.published.values():
        assert set(numbers) <= set(result["numbers"]), "a published number has no measured one of the same name"
    assert set(spec.published) <= set(spec.models)
    assert all(numbers["published"] is None for numbers in result["numbers"].values()), "not the paper's own model"
    assert not result["skipped"], result["skipped"][:3]
    page = (done.folder / "README.md").read_text()
    assert spec.title in page
    again = reproduce(name, lens_for(spec.needs), data, out=tmp_path, other=other, **options)
    assert again.outcome is None, "a finished experiment is not run again"
    assert again.result == result


def test_every_row_of_the_papers_is_there() -> None:
    wanted = {
        "brunner2020": "fig1a fig1bc fig5 fig6 fig2a fig2b fig8 fig9 fig10 fig7 fig11 fig12 fig13 fig14 fig15 fig16 fig17 fig3a fig3b fig4 "
        "fig18 fig19 fig20 fig21 fig22 fig23 fig24 fig25 fig26 fig27 fig28 fig29 fig30 fig31 fig32 fig33 fig34 fig35 fig36 fig37 appD",
        "kobayashi2020": "table1 table4 fig3 table2 fig4 fig5 fig10 fig11 fig12 fig6 fig9 table3 fig7 fig8 fig13 fig14 fig15 fig16 fig17",
        "ferrando2022": "table2 fig3 fig6 fig7 fig5 fig8 fig9 fig10 table1 table3 table4 table5 table6 table7 table8 table9",
        "mohebbi2023": "data fig1 fig2 figA3 figA4 figA1 figA2 fig3 table2 table3 fig4 figA5 figA18",
    }
    for paper, parts in wanted.items():
        for part in parts.split():
            assert resolved(f"{paper}/{part}") in names()


def test_specs_say_what_a_list_needs() -> None:
    for name, spec in experiments().items():
        assert all((spec.title, spec.finding, spec.data, spec.cost)), name
        assert spec.needs in ("any", "masked", "language", "classifier", "translation"), name
