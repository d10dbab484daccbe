"""A row of the leaderboard holds what was run and every score, and a damaged one is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mixlens import Lens
from mixlens import benchmark as trust
from mixlens import datasets as corpus
from mixlens.benchmark.submission import read_submission, submission
from mixlens.cli import app
from mixlens.errors import InvalidInput
from mixlens.maps.provenance import weights_digest


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("row") / "row.json"
    chosen = ["--measures", "attention", "--evaluations", "cue_alignment", "--sample", "4"]
    done = CliRunner().invoke(app, ["benchmark", *chosen, "--submit", str(path)])
    assert done.exit_code == 0, done.output
    assert str(path) in done.stderr
    return path


def test_a_row_is_what_the_benchmark_found(written: Path) -> None:
    lens, data = Lens.bundled(), corpus.bundled().sample(4)
    ranking = trust.benchmark(lens, data, ["attention"], ["cue_alignment"])
    row = read_submission(written)
    assert row == json.loads(json.dumps(submission(ranking)))
    assert row["model"] == "mixlens/bundled/masked"
    assert row["weights"] == weights_digest(lens.model)
    assert row["texts"] == 4
    cell = row["evaluations"]["cue_alignment"]["measures"]["attention"]
    result = ranking.columns["cue_alignment"].results["attention"]
    assert (cell["value"], cell["low"], cell["high"]) == (result.value, *result.interval)
    assert cell["layers"] == result.details["layers"].tolist()
    assert 0 <= row["of model"]["accuracy"]["value"] <= 1


def test_a_row_names_no_folder_and_no_text(tmp_path: Path) -> None:
    lens, data = Lens.bundled(), corpus.bundled().sample(3)
    model: Any = lens.model
    model.save_pretrained(tmp_path / "mine")
    model.config._name_or_path = str(tmp_path / "mine")
    row = submission(trust.benchmark(lens, data, ["attention"], ["cue_alignment"]))
    assert row["model"] == "mine"
    text = json.dumps(row)
    assert str(tmp_path) not in text
    assert not any(example.text in text for example in data.examples)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 0}, "format 1"),
        ({"weights": None}, "weights missing"),
        ({"texts": "many"}, "texts missing"),
        ({"evaluations": {"aopc": {"measures": {"alti": {"value": "high"}}}}}, "scores of aopc"),
    ],
)
def test_a_damaged_row_is_refused(
    written: Path, tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    path = tmp_path / "row.json"
    path.write_text(json.dumps(json.loads(written.read_text()) | change))
    with pytest.raises(InvalidInput, match=words):
        read_submission(path)
    path.write_text("{")
    with pytest.raises(InvalidInput, match="JSON"):
        read_submission(path)
