"""Views in a notebook: executed, saved, and opened again without a kernel; and the widget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter

from mixlens import Lens
from mixlens.views.viewer.page import built
from mixlens.views.viewer.widget import Viewer
from tests.viewer.browser import needs_browser, opened

CELLS = (
    """import numpy as np
from mixlens import MixingMaps
first, second = (
    MixingMaps.of(np.random.default_rng(seed).random((3, 4, 4)), words.split())
    for seed, words in enumerate(["one two three four", "five six seven eight"])
)
first""",
    "second",
)


@needs_browser
def test_two_views_in_one_notebook_are_there_after_it_was_saved(tmp_path: Path) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in CELLS])
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    saved = tmp_path / "saved.ipynb"
    nbformat.write(notebook, saved)
    shown, _ = HTMLExporter(embed_images=True).from_filename(str(saved))
    file = tmp_path / "saved.html"
    file.write_text(shown, encoding="utf-8")
    with opened() as (page, _):  # nbconvert's own page asks for scripts, ours must not need them
        page.goto(f"file://{file}")
        views = [page.frame_locator("iframe >> nth=0"), page.frame_locator("iframe >> nth=1")]
        assert views[0].locator(".answer").inner_text().startswith("four receives most from")
        assert views[1].locator(".answer").inner_text().startswith("eight receives most from")
        views[1].get_by_role("tab", name="Map").click()
        assert views[1].locator(".map-view canvas").is_visible()
        assert views[0].locator(".answer").is_visible()


@pytest.fixture(scope="module")
def widget() -> Viewer:
    return Viewer(Lens.bundled(), "The dogs [MASK].", ("attention",))


def _job(text: str, *measures: str) -> dict[str, Any]:
    return {"number": 1, "text": text, "target_text": None, "measures": [*measures], "heads": True}


def test_the_widget_measures_again_on_request(widget: Viewer) -> None:
    assert [entry["measure"] for entry in widget.payload["maps"]] == ["attention"]
    widget.job = _job("A cat [MASK] here.", "attention_norm")
    (entry,) = widget.answer["payload"]["maps"]
    assert entry["measure"] == "attention_norm"
    assert entry["heads"] is not None
    widget.job = _job("", "attention")
    assert "error" in widget.answer


@needs_browser
def test_the_widget_draws_itself(widget: Viewer, tmp_path: Path) -> None:
    file = tmp_path / "widget.html"
    file.write_text("<!doctype html><title>t</title><div id=cell></div>", encoding="utf-8")
    with opened() as (page, wrong):
        page.goto(f"file://{file}")
        page.evaluate(f"{built()}; window.mixlensViewer = mixlensViewer")
        page.evaluate(MODEL, {"payload": widget.payload, "choices": widget.choices})
        assert page.locator(".answer").inner_text().startswith("[MASK] receives most from")
        page.get_by_role("button", name="Measure", exact=True).click()
        assert page.get_by_text("the kernel says no").is_visible()
        assert not wrong


MODEL = """(traits) => {
  const heard = {};
  const model = {
    get: (name) => traits[name],
    set: (name, value) => { traits[name] = value; },
    on: (event, act) => { heard[event] = act; },
    off: (event) => { delete heard[event]; },
    save_changes: () => {
      traits.answer = { number: traits.job.number, error: "the kernel says no" };
      heard["change:answer"]();
    },
  };
  mixlensViewer.render({ model, el: document.getElementById("cell") });
}"""
