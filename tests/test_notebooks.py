"""The notebooks of the documentation run, and their pages show the outputs."""

from __future__ import annotations

import re

import nbformat

from docs.notebook_pages import colab_link, executed, notebooks, on_page_content, shown


def test_notebooks_run_and_show_their_views() -> None:
    paths = notebooks()
    assert paths
    for path, cells in zip(paths, executed(paths), strict=True):
        page = on_page_content("\n\n".join(part for cell in cells for part in shown(cell)))
        assert "<iframe" in page, f"{path.name} shows no view"
        assert '<div id="view-' not in page, f"{path.name} has a place that was not filled"


def test_notebooks_are_stored_without_what_they_print() -> None:
    for path in notebooks():
        cells = nbformat.read(path, as_version=4).cells
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells), (
            f"{path.name} holds outputs: clear them before you save"
        )


def test_notebooks_need_nothing_but_the_package() -> None:
    for path in notebooks():
        code = [c.source for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
        assert "%pip install" in code[0], f"{path.name} does not install mixlens first"
        for source in code:
            assert not re.search(r"src/|tests/|docs/|training/|\.\./", source), path.name


def test_links_to_colab_need_the_address_of_the_repository() -> None:
    link = colab_link("https://github.com/owner/name/", "trust.ipynb")
    assert "colab.research.google.com/github/owner/name/blob/main/docs/notebooks/trust" in link
    assert colab_link(None, "trust.ipynb") == colab_link("https://example.org", "x.ipynb") == ""
