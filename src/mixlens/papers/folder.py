"""Write the folder of a finished experiment.

It contains CSV tables, SVG figures, `result.json`, and a report as `README.md` and `report.html`.
The folder appears only when the experiment is complete.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

from mixlens.errors import InvalidInput
from mixlens.maps.provenance import plain
from mixlens.model.json_values import parse_json, require_form
from mixlens.papers.contracts import ExperimentSpec, Outcome
from mixlens.runs.settings import differences
from mixlens.views.canvas import save_figure
from mixlens.views.charts import inline_svg
from mixlens.views.document import document, table
from mixlens.views.viewer.page import script_source


def select_published(spec: ExperimentSpec, model: str, origin: str) -> Mapping[str, float] | None:
    """Return the numbers that the paper reports.

    Return None unless the model and the data match those of the paper.
    """
    name = model.rstrip("/").split("/")[-1].lower()
    own_data = not spec.kinds or any(Path(origin).match(pattern) for pattern in spec.own_files)
    return spec.published.get(name, {}) if name in spec.models and own_data else None


def result_of(
    spec: ExperimentSpec,
    settings: Mapping[str, Any],
    outcome: Outcome,
    published: Mapping[str, float] | None,
) -> dict[str, Any]:
    """Convert an outcome to plain values, which are stored in `result.json`."""
    return {
        "settings": dict(settings),
        "title": spec.title,
        "papers_own_model_and_data": published is not None,
        "numbers": {
            key: {
                "measured": plain(float(value), finite=True),
                "published": (published or {}).get(key),
            }
            for key, value in outcome.measured.items()
        },
        "findings": [
            {
                "statement": finding.statement,
                "holds": None if finding.holds is None else bool(finding.holds),
                "numbers": finding.numbers,
            }
            for finding in outcome.findings
        ],
        "skipped": [list(pair) for pair in outcome.skipped],
        "notes": outcome.notes,
        "tables": [f"{key}.csv" for key in outcome.tables],
        "figures": [f"{key}.svg" for key in outcome.figures],
    }


def read_finished(folder: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored result of a folder.

    Raise an error if the folder contains no result, or a result with different settings.
    """
    path = folder / "result.json"
    if not path.is_file():
        raise InvalidInput(
            f"{folder} exists, but contains no result of an experiment. Choose a different --out."
        )
    try:
        result: dict[str, Any] = parse_json(path.read_text(encoding="utf-8"))
        require_form(result, {"settings": {str: object}}, path.name)
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"{path} cannot be read ({error}). Choose a different --out, or delete the folder."
        ) from error
    compared = {key: value for key, value in settings.items() if key != "options"}
    before = {key: result["settings"].get(key) for key in compared}
    changed = differences(before, compared)
    if changed:
        raise InvalidInput(
            f"{folder} was written with different settings ({'; '.join(changed)}). Choose a "
            "different --out, or delete the folder."
        )
    return result


def write_finished(
    folder: Path, spec: ExperimentSpec, result: Mapping[str, Any], outcome: Outcome, example: str
) -> None:
    """Write a result to its folder atomically.

    `example` is an HTML frame with the viewer of one text.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(prefix=".making-", dir=folder.parent))
    try:
        for key, frame in outcome.tables.items():
            frame.to_csv(making / f"{key}.csv", index=False)
        for key, figure in outcome.figures.items():
            save_figure(figure, making / f"{key}.svg")
        (making / "result.json").write_text(
            json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        (making / "README.md").write_text(page(spec, result, outcome), encoding="utf-8")
        (making / "report.html").write_text(
            html_page(spec, result, outcome, example), encoding="utf-8"
        )
        making.chmod(0o755)
        making.rename(folder)
    except BaseException:
        shutil.rmtree(making, ignore_errors=True)
        raise


def page(spec: ExperimentSpec, result: Mapping[str, Any], outcome: Outcome) -> str:
    """Return the outcome as a Markdown page."""
    settings = result["settings"]
    about = (
        f"{settings['model']}, {settings['texts']} texts of {settings['data']}, seed"
        f" {settings['seed']}."
    )
    parts = [f"# {settings['experiment']}: {spec.title}", about]
    parts.append(
        f"The paper ({', '.join(spec.models) or 'its own models'}; {spec.data}): {spec.finding}"
    )
    if result["findings"]:
        rows = [
            f"| {cell(f['statement'])} | {VERDICTS[f['holds']]} | {cell(f['numbers'])} |"
            for f in result["findings"]
        ]
        parts.append("\n".join(["| statement | here | numbers |", "|---|---|---|", *rows]))
    if result["numbers"]:
        rows = [
            f"| {cell(key)} | {format_number(pair['measured'])}"
            f" | {format_number(pair['published'])} |"
            for key, pair in result["numbers"].items()
        ]
        parts.append("\n".join(["| number | measured | published |", "|---|---|---|", *rows]))
    parts += [f"![{Path(name).stem}]({name})" for name in result["figures"]]
    parts += [f"[{name}]({name})" for name in result["tables"]]
    if outcome.skipped:
        parts.append(
            f"{len(outcome.skipped)} texts were skipped. First reason: "
            f"{outcome.skipped[0][0]}: {outcome.skipped[0][1]}"
        )
    return "\n\n".join([*parts, *([outcome.notes] if outcome.notes else [])]) + "\n"


def cell(text: str) -> str:
    """Return text for a Markdown table cell, with bars escaped."""
    return text.replace("|", "\\|")


VERDICTS: dict[bool | None, str] = {
    True: "holds",
    False: "does not hold",
    None: "cannot be decided",
}


def html_page(
    spec: ExperimentSpec, result: Mapping[str, Any], outcome: Outcome, example: str = ""
) -> str:
    """Return the report as an HTML page with findings, numbers and figures.

    The tables are separate files next to the page. `example` is an HTML frame with the viewer of
    one text.
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
        values = [
            (key, format_number(pair["measured"]), format_number(pair["published"]))
            for key, pair in pairs
        ]
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


def format_number(value: float | None) -> str:
    """Format a number for a table cell. Return an empty string if there is no number."""
    return "" if value is None else f"{value:.4g}"
