"""Reports show one of their texts in the viewer."""

from __future__ import annotations

from pathlib import Path

import pytest

from mixlens import Lens
from mixlens import datasets as corpus
from mixlens.runs.example_view import MEASURES, example_frame
from mixlens.views.document import document
from mixlens.views.viewer.page import script_source
from tests.viewer.browser import needs_browser, opened


@pytest.fixture(scope="module")
def shown() -> str:
    return example_frame(Lens.bundled(), corpus.bundled().examples[:5], MEASURES)


@needs_browser
def test_a_report_shows_one_text_without_a_network(shown: str, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    report = document("Report", "about", [shown], script=script_source())
    file.write_text(report, encoding="utf-8")
    with opened() as (page, wrong):
        page.goto(f"file://{file}")
        view = page.frame_locator("iframe")
        assert view.locator(".answer").inner_text().startswith("[MASK] receives most from ")
        view.get_by_role("tab", name="Compare").click()
        assert "value_zeroing and " in view.locator(".compare-view .answer").inner_text()
        assert not wrong


def test_texts_that_cannot_be_shown_give_no_frame() -> None:
    lens = Lens.bundled()
    assert example_frame(lens, [], MEASURES) == ""
    assert example_frame(lens, corpus.bundled().examples[:1], ["blank_out", "nothing"]) == ""
