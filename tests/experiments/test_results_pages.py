"""The results pages and the list of experiments agree with the kept results and experiments."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from docs.results_pages import DATA, MODELS, pages
from mixlens.experiments import names


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
