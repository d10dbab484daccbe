"""Patterns are counted in prose alone, and samples are the same for the same seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from release.environment import ROOT
from release.passages import Passage, all_passages, paragraphs, whole_pages
from release.prose import FIRST_AUDIT, main, rates, sample, table

KINDS = {"changelog", "docs", "docstrings", "errors", "help", "readme"}

PAGE = """# What a heading says

What is measured is said here: you see it
on two lines.

| what | a table |
|---|---|

```python
what = "code: not prose"
```

    y = a formula: what x gives

- A bullet point with [a link](what.md) in it.
"""

SOURCE = '''"""Say what the module is about."""


def function(value):
    """Return the value of it.

    Parameters
    ----------
    value
        The value that you pass.

    Examples
    --------
    >>> what = 1
    """
    raise ValueError(f"Value {value!r} is out of range: pass another one.")
'''


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "README.md").write_text(PAGE)
    (tmp_path / "src" / "module.py").write_text(SOURCE)
    return tmp_path


def test_prose_of_a_page() -> None:
    assert list(paragraphs(PAGE)) == [
        "What is measured is said here: you see it on two lines.",
        "A bullet point with a link in it.",
    ]


def test_prose_of_a_module(repository: Path) -> None:
    texts = {each.text: each.kind for each in all_passages(repository) if each.kind != "readme"}
    assert texts == {
        "Say what the module is about.": "docstrings",
        "Return the value of it. value The value that you pass.": "docstrings",
        "Value … is out of range: pass another one.": "errors",
    }


def test_rates_per_thousand_words() -> None:
    text = "You know what it is: a «test». What is it? " + "word " * 190
    assert rates([Passage("docs", "page", text)]) == {
        "what-clauses": 5.0,  # not the question
        "you": 5.0,
        "colons": 5.0,
        "guillemets": 10.0,
    }


def test_tables_are_in_whole_pages_alone(repository: Path) -> None:
    (page,) = whole_pages(repository)
    assert "a table" in page.text
    assert "not prose" not in page.text
    lines = table(all_passages(repository), [page]).splitlines()
    assert lines[-2].startswith("whole pages")
    assert lines[-1].split()[-4:] == [*map(str, FIRST_AUDIT.values()), "–"]


def test_samples_have_every_kind(capsys: pytest.CaptureFixture[str]) -> None:
    passages = all_passages(ROOT)
    drawn = sample(passages, 60, seed=1)
    assert len(drawn) == 60
    assert {each.kind for each in drawn} == KINDS
    assert drawn == sample(passages, 60, seed=1) != sample(passages, 60, seed=2)
    main(["--sample", "3", "--seed", "1"])
    assert capsys.readouterr().out.startswith("1. [")
