from __future__ import annotations

import copy
import json
import math
import re
import zipfile
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import torch

from mixlens import Lens
from mixlens.evaluations import compiled_truth, evaluate
from mixlens.evaluations.compiled_truth import DEFINITIONS, Compiled, compiled_cases
from mixlens.measures import names

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "development" / "compiled_models.md"
FIRST = {case.program: case for case in compiled_cases() if case.number == 0}
each = pytest.mark.parametrize("program", FIRST)


def truth_of(program: str) -> dict[str, Any]:
    path = resources.files("mixlens") / "bundled" / "compiled.zip"
    with path.open("rb") as file, zipfile.ZipFile(file) as archive:
        return dict(json.loads(archive.read(f"{program}/truth.json")))


def logits(case: Compiled, ids: torch.Tensor, outputs: int) -> torch.Tensor:
    with torch.no_grad():
        return case.recording.model(input_ids=ids).logits[:, case.target, :outputs]


@each
def test_the_truth_is_true_of_the_models(program: str) -> None:
    """Every other token in every place: the output changes for counterfactual sources only."""
    truth = truth_of(program)
    others = [truth["input_vocabulary"][token] for token in truth["substitutes"]]
    for case, known in zip(
        (case for case in compiled_cases() if case.program == program), truth["cases"], strict=True
    ):
        ids = torch.tensor(known["input_ids"])
        before = logits(case, ids[None], len(truth["outputs"]))[0]
        torch.testing.assert_close(
            before, torch.tensor(known["logits"], dtype=torch.float64), atol=1e-6, rtol=0
        )
        for place in range(1, len(ids)):
            edited = ids.repeat(len(others), 1)
            edited[:, place] = torch.tensor(others)
            after = logits(case, edited, len(before))
            moved = (
                after.argmax(-1) != before.argmax()
                if truth["categorical"]
                else ((after - before).abs().amax(-1) > 1e-3)
            )
            assert bool(moved.any()) == (place in known["counterfactual"]), (case.name, place)


@each
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_models_verify(program: str, dtype: torch.dtype) -> None:
    recording = FIRST[program].recording
    ids = recording.inputs["input_ids"]
    config: Any = recording.model.config
    every = torch.arange(ids.shape[1])[None] % config.vocab_size
    for given in (ids[:1], every):
        model = copy.deepcopy(recording.model).to(dtype)  # nothing is remembered of a copy
        report = Lens(model).verify({"input_ids": given})
        assert report.native_error <= report.tolerance
        assert not report.left_out


def test_tokens_that_the_target_reads_are_found_and_no_others() -> None:
    details = evaluate("compiled_truth", "alti").details
    copied = [details["carried"][case.name] for case in compiled_cases() if "prev" in case.program]
    assert set(copied) - {math.nan} >= {1.0}
    noise = evaluate("compiled_truth", "random").details
    for definition in DEFINITIONS:
        known = [value for value in noise[definition].values() if not math.isnan(value)]
        assert 0 < len(known) < len(compiled_cases())
        assert sum(known) / len(known) < 0.4


def test_counts_are_kept_apart() -> None:
    seen = compiled_truth.observe(FIRST["frac_prevs"], "attention")
    assert math.isnan(seen["carried"])
    assert math.isnan(seen["counterfactual"])


def test_the_page_is_current() -> None:
    """Every measure and program has its place; the rows of quick measures are computed again."""
    page = PAGE.read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \|.*$", page, re.MULTILINE)
    assert rows == list(names()), "run: python -m mixlens.evaluations.compiled_truth"
    assert re.findall(r"^\* `(\w+)`:", page, re.MULTILINE) == list(FIRST)
    for measure in ("attention", "alti"):
        assert compiled_truth.table_row(measure) in page, measure


def test_the_summary_has_the_numbers_of_both_tables() -> None:
    def first_cells(page: Path, count: int) -> dict[str, list[str]]:
        lines = re.findall(r"^\| `(\w+)` \| (.*) \|$", page.read_text("utf-8"), re.MULTILINE)
        return {name: cells.split(" | ")[:count] for name, cells in lines}

    summary = first_cells(DOCS / "synthetic_ground_truth.md", 3)
    by_hand = first_cells(DOCS / "development" / "hand_built_models.md", 1)
    compiled = first_cells(PAGE, 2)
    assert summary == {name: by_hand[name] + compiled[name] for name in names()}
