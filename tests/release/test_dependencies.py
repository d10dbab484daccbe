"""docs/dependencies.md lists exactly the packages of pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from release.compat import COMBINATIONS, HEAD, requirement, with_row

ROOT = Path(__file__).resolve().parents[2]
OF_USERS = ("eval", "corpus", "ray", "plot", "web", "widget")


def _names(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=!~\[; ]", each)[0] for each in requirements}


def test_each_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / "docs" / "dependencies.md").read_text()
    core, extras = page.split("## Extras")
    assert set(re.findall(r"^\| `(\S+)` \| \w", core, re.M)) == _names(project["dependencies"])
    listed = {
        name: set(re.findall(r"`(\w+)`", where))
        for name, where in re.findall(r"^\| `(\S+)` \| (`[^|]+) \|", extras, re.M)
    }
    declared: dict[str, set[str]] = {}
    for extra in OF_USERS:
        for name in _names(project["optional-dependencies"][extra]):
            declared.setdefault(name, set()).add(extra)
    assert listed == declared


def test_tested_versions_are_the_declared_ones() -> None:
    assert requirement("transformers", "oldest") == "transformers==5.2.*"
    assert requirement("torch", "oldest") == "torch==2.6.*"
    assert {each.python for each in COMBINATIONS} >= {"3.11", "3.12", "3.13"}


def test_a_row_takes_the_place_of_the_last_one_for_its_environment() -> None:
    old = "| 3.11 | 2.6.0 (oldest) | 5.2.0 (oldest) | 1 failed |"
    other = "| 3.11 | 2.13.0 (newest) | 5.2.0 (oldest) | 3 passed |"
    new = "| 3.11 | 2.6.1 (oldest) | 5.2.0 (oldest) | 2 passed |"
    page = with_row(with_row(f"text\n\n{HEAD}", old), other)
    assert with_row(page, new) == f"text\n\n{HEAD}{other}\n{new}\n"
