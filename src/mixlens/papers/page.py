"""Write the outcome of an experiment as an HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from mixlens.papers.contracts import ExperimentSpec, Outcome
from mixlens.views.charts import inline_svg
from mixlens.views.document import document, table
from mixlens.views.viewer.page import script_source

VERDICTS: dict[bool | None, str] = {
    True: "holds",
    False: "does not hold",
    None: "cannot be decided",
}


def html_page(
    spec: ExperimentSpec, result: Mapping[str, Any], outcome: Outcome, example: str = ""
) -> str:
    """Return a page with findings, numbers and figures. The tables are files next to the page.

    `example` is the viewer frame of one text.
    """
    settings = result["settings"]
    about = (
        f"{settings['model']}, {settings['texts']} texts of {settings['data']}, seed"
        f" {settings['seed']}"
    )
    body = _body(spec, result, outcome, example)
    title = f"{settings['experiment']}: {spec.title}"
    return document(title, about, body, script=script_source())


def _body(
    spec: ExperimentSpec, result: Mapping[str, Any], outcome: Outcome, example: str
) -> Iterator[str]:
    yield '<section class="verdict" aria-label="Finding of the paper">'
    models = ", ".join(spec.models) or "its own models"
    yield f"<p>{escape(spec.finding)}</p><p>The paper: {escape(models)}; {escape(spec.data)}.</p>"
    yield "</section>"
    if result["findings"]:
        yield "<h2>Findings</h2>"
        rows = [(f["statement"], VERDICTS[f["holds"]], f["numbers"]) for f in result["findings"]]
        yield table("Findings", ("statement", "here", "numbers"), rows, left=True)
    if result["numbers"]:
        yield "<h2>Numbers</h2>"
        pairs = result["numbers"].items()
        values = [(key, shown(pair["measured"]), shown(pair["published"])) for key, pair in pairs]
        yield table("Numbers", ("number", "measured", "published"), values)
    for key, figure in outcome.figures.items():
        yield f"<h2>{escape(key)}</h2>\n<figure>{inline_svg(figure, key)}</figure>"
    if example:
        yield f"<h2>One of the texts</h2>\n{example}"
    links = (f'<li><a href="{escape(name)}">{escape(name)}</a></li>' for name in result["tables"])
    yield f"<h2>Tables</h2>\n<ul>{''.join(links)}</ul>"
    if outcome.skipped:
        name, reason = outcome.skipped[0]
        first = f"{len(outcome.skipped)} texts were skipped. First reason: {name}: {reason}"
        yield f"<p>{escape(first)}</p>"
    if outcome.notes:
        yield f"<p>{escape(outcome.notes)}</p>"


def shown(value: float | None) -> str:
    """Return a number for a table cell, or an empty text if there is none."""
    return "" if value is None else f"{value:.4g}"
