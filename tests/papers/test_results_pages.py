"""The results pages and the list of experiments agree with the kept results and experiments."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.leaderboard_pages import rows
from docs.results_pages import DATA, MODELS, SUMMARIES, pages, results
from mixlens.papers import experiments, names, papers


@pytest.mark.smoke
@pytest.mark.parametrize("path", [pytest.param(path, id=path.name) for path in pages()])
def test_pages_are_current(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == pages()[path], "run: python -m docs.results_pages"


def test_kept_results_are_of_known_experiments_and_models() -> None:
    kept = sorted(DATA.rglob("result.json"))
    assert kept, "no results are kept"
    for path in kept:
        settings = json.loads(path.read_text(encoding="utf-8"))["settings"]
        assert settings["experiment"] in names()
        assert settings["experiment"].replace("/", "_") == path.parent.name
        assert settings["model"] == MODELS[path.parent.parent.name]


def _numbers(text: str) -> list[str]:
    return re.findall(r"-?\d+\.\d+", text)


def _known(paper: str) -> Iterator[float]:
    """Every number of a paper's kept results, and those that the paper itself prints."""
    for name, spec in experiments().items():
        if name.startswith(f"{paper}/"):
            yield from map(float, _numbers(spec.finding))
            yield from (value for by_name in spec.published.values() for value in by_name.values())
            for _, result, _ in results(name):
                measured = (number["measured"] for number in result["numbers"].values())
                yield from (value for value in measured if value is not None)
                for finding in result["findings"]:
                    yield from map(float, _numbers(finding["numbers"]))


@pytest.mark.parametrize("paper", papers())
def test_numbers_of_the_summaries_are_in_the_results(paper: str) -> None:
    known = [scale * value for value in _known(paper) for scale in (1, 100)]  # 0.998 is 99.8 %
    for number in _numbers(" ".join(SUMMARIES[paper])):
        digits = len(number.partition(".")[2])
        assert any(round(value, digits) == float(number) for value in known), number


def test_fine_tuned_models_are_those_of_the_leaderboard() -> None:
    held = rows()
    for model, row in (
        ("gte-prompt", "gte-prompt-linzen"),
        ("gte-sst2", "gte-sst2"),
        ("minilm-sst2", "minilm-sst2"),
        ("sst2", "masked-sst2"),
    ):
        for path in sorted((DATA / model).rglob("result.json")):
            settings = json.loads(path.read_text(encoding="utf-8"))["settings"]
            if settings["experiment"] != "ferrando2022/fig5":  # a picture of earlier weights
                assert settings["weights"] == held[row]["weights"], path
