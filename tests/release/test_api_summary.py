"""`llms.txt` agrees with the docstrings."""

from __future__ import annotations

from mixlens import Lens
from mixlens.measures import names
from release.api_summary import PAGE, api_summary


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == api_summary(), "run `python -m release.api_summary`"


def test_it_names_every_measure_and_method() -> None:
    page = api_summary()
    assert [name for name in names() if f"- `{name}`" not in page] == []
    methods = [name for name in vars(Lens) if not name.startswith("_")]
    assert [name for name in methods if f"- `.{name}" not in page and name != "model"] == []
