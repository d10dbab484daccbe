"""The notebooks as pages: each is executed while the site is built, and its views are in the page.

A notebook is stored without what it prints. All are run by one kernel, one after the other, with
nothing left in between.
"""

from __future__ import annotations

import html
import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "notebooks"
_views: dict[str, str] = {}  # place in a page -> the view that is put there


def notebooks() -> list[Path]:
    """Return all notebooks."""
    return sorted(FOLDER.glob("*.ipynb"))


def executed(paths: list[Path]) -> list[list[Any]]:
    """Run each notebook and return its cells with their outputs. Raise if a cell fails."""
    import nbformat
    from nbclient import NotebookClient

    cells = [nbformat.read(path, as_version=4).cells for path in paths]
    everything = [
        cell for part in cells for cell in (*part, nbformat.v4.new_code_cell("%reset -f"))
    ]
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(
            nbformat.v4.new_notebook(cells=everything),
            timeout=1800,  # for one cell; a busy machine may be slow
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
        ).execute()
    return cells


def colab_link(repository: str | None, name: str) -> str:
    """Return a badge that opens a notebook on Colab, if the repository is on GitHub."""
    home = "https://github.com/"
    if not (repository or "").startswith(home):
        return ""
    place = str(repository).removeprefix(home).strip("/")
    address = f"https://colab.research.google.com/github/{place}/blob/main/docs/notebooks/{name}"
    return f' <a class="md-button" href="{address}">Open in Colab</a>'


# ------------------------------------------------------------------------------------------- pages


def on_files(files: Any, config: Any) -> Any:
    """Add a page for each notebook."""
    from mkdocs.structure.files import File

    paths = notebooks()
    for path, cells in zip(paths, executed(paths), strict=True):
        text = "\n\n".join(itertools.chain.from_iterable(shown(cell) for cell in cells))
        link = colab_link(config.repo_url, path.name)
        origin = f"*This page is a notebook: [{path.name}]({path.name}).{link}*"
        page = File.generated(
            config, f"{FOLDER.name}/{path.stem}.md", content=f"{text}\n\n{origin}"
        )
        files.append(page)
    return files


def on_page_content(content: str, **_: Any) -> str:
    """Return the page with its views, which are whole pages in frames and bypass Markdown."""
    for place in [place for place in _views if place in content]:
        content = content.replace(place, _views[place])
    return content


def shown(cell: Any) -> Iterator[str]:
    """Return a cell as Markdown."""
    if cell.cell_type == "markdown":
        yield cell.source
        return
    yield f"```python\n{cell.source}\n```"
    printed = "".join(o.text for o in cell.outputs if o.get("name") == "stdout")
    if printed:
        yield f"```text\n{printed.rstrip()}\n```"
    for output in cell.outputs:
        if output.output_type == "stream":
            continue
        if "text/html" in output.data:
            yield placed(output.data["text/html"])
        else:
            yield f"<pre class='output'>{html.escape(output.data['text/plain'])}</pre>"


def placed(view: str) -> str:
    """Return a placeholder for a view, which `on_page_content` fills."""
    place = f'<div id="view-{len(_views)}"></div>'
    _views[place] = f'<div class="output">{view}</div>'
    return place
