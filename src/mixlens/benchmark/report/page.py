"""Write the report of a ranking as an HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING

from mixlens.benchmark.plan import BASELINE
from mixlens.benchmark.report import wording
from mixlens.evaluations import evaluations
from mixlens.views.document import breakable, document, table
from mixlens.views.viewer.page import script_source

if TYPE_CHECKING:
    from mixlens.benchmark.ranking import Ranking


def page(ranking: Ranking, charts: Mapping[str, str], example: str = "") -> str:
    """Return the report as an HTML page. `charts` maps titles to SVG charts. `example` is an HTML
    frame with the viewer for one text.
    """
    return document(
        "Which measure to trust",
        wording.headline(ranking),
        _body(ranking, charts, example),
        script=script_source(),
    )


def _body(ranking: Ranking, charts: Mapping[str, str], example: str) -> Iterator[str]:
    yield '<section class="verdict" aria-label="Verdict">'
    yield from (f"<p>{escape(line)}</p>" for line in ranking.verdict.splitlines())
    yield "</section>"
    if ranking.standings:
        yield "<h2>Ranked measures</h2>"
        yield from _rank_table(ranking)
    if example:
        yield f"<h2>One text, as these measures see it</h2>\n{example}"
    for title, svg in charts.items():
        yield f"<h2>{escape(title)}</h2>\n<figure>{svg}</figure>"
    yield from _list_questions(ranking)
    yield from _of_model(ranking)
    if ranking.left_out:
        yield "<h2>Left out</h2>\n<dl>"
        yield from (
            f"<dt>{escape(name)}</dt><dd>{escape(reason)}</dd>"
            for name, reason in ranking.left_out.items()
        )
        yield "</dl>"
    if ranking.not_judged:
        yield "<h2>Not judged</h2>\n<dl>"
        yield from (
            f"<dt>{escape(name)}</dt><dd>{escape(reason)}</dd>"
            for name, reason in ranking.not_judged.items()
        )
        yield "</dl>"
    yield from _errors(ranking)
    yield "<h2>Settings</h2>\n<dl>"
    yield from (
        f"<dt>{escape(key)}</dt><dd><code>{escape(str(value))}</code></dd>"
        for key, value in ranking.settings.items()
    )
    yield "</dl>"


def _rank_table(ranking: Ranking) -> Iterator[str]:
    yield '<div class="wide" role="region" aria-label="Ranked measures" tabindex="0">\n<table>'
    yield (
        "<caption>Best first. Under each value its 95 % bootstrap interval over the"
        " examples.</caption>\n<thead><tr>"
    )
    heads = [
        f"{breakable(name)} {wording.ARROWS[column.direction]}".strip()
        for name, column in ranking.columns.items()
    ]
    yield (
        '<th scope="col" class="left">measure</th><th scope="col">mean rank</th><th'
        ' scope="col">evaluations</th>'
    )
    yield (
        "".join(f'<th scope="col">{head}</th>' for head in heads)
        + '<th scope="col">s per text</th></tr></thead>\n<tbody>'
    )
    for place, (measure, standing) in enumerate(ranking.standings.items(), 1):
        interval = wording.between(standing.interval, 2)
        rank = f"{wording.number(standing.mean_rank, 2)}<small>{interval}</small>"
        cells = "".join(_cell(ranking, name, measure) for name in ranking.columns)
        spent = wording.seconds(ranking.seconds.get(measure))
        kind = ' class="baseline"' if measure == BASELINE else ""
        name = f'<th scope="row">{place}. {breakable(measure)}</th>'
        rank_cells = f"<td>{rank}</td><td>{standing.judged_by}</td>"
        yield f"<tr{kind}>{name}{rank_cells}{cells}<td>{spent}</td></tr>"
    yield "</tbody></table></div>\n<ul class='quiet'>"
    yield from (f"<li>{sign} {escape(meaning)}</li>" for sign, meaning in wording.LEGEND.items())
    yield "</ul>"


def _cell(ranking: Ranking, evaluation: str, measure: str) -> str:
    result = ranking.columns[evaluation].results.get(measure)
    if result is None:
        return '<td><span class="quiet" title="no value">–</span></td>'
    marks = ranking.marks[evaluation].get(measure)
    signs = (
        ""
        if marks is None
        else "".join(
            f'<abbr class="sign" title="{escape(wording.LEGEND[sign])}">{sign}</abbr>'
            for sign in wording.signs(marks)
        )
    )
    best = ' class="best"' if marks is not None and marks.is_best else ""
    interval = wording.between(result.interval)
    return f"<td{best}>{wording.number(result.value)}{signs}<small>{interval}</small></td>"


def _list_questions(ranking: Ranking) -> Iterator[str]:
    specs = evaluations()
    if ranking.columns:
        yield "<h2>What each evaluation asks</h2>\n<dl>"
        for name, column in ranking.columns.items():
            direction, citation = wording.DIRECTIONS[column.direction], escape(specs[name].citation)
            yield (
                f"<dt>{escape(name)} <small>({direction})</small></dt><dd>{escape(column.summary)}."
                f" <small>{citation}</small></dd>"
            )
        yield "</dl>"


def _of_model(ranking: Ranking) -> Iterator[str]:
    specs = evaluations()
    if not ranking.of_model:
        return
    yield "<h2>About the model</h2>\n<dl>"
    for name, result in ranking.of_model.items():
        value = f"{wording.number(result.value)} {wording.between(result.interval)}".strip()
        yield (
            f"<dt>{escape(name)}: {value}</dt><dd>{escape(specs[name].summary)}."
            f" <small>{escape(specs[name].citation)}</small>"
        )
        numbers, by_layer = wording.report_details(specs[name], result)
        if numbers:
            entries = (f"<li>{escape(key)}: {escape(text)}</li>" for key, text in numbers.items())
            yield f"<ul>{''.join(entries)}</ul>"
        for heads, rows in by_layer:
            yield table(f"{name} by layer", heads, rows)
        yield "</dd>"
    yield "</dl>"


def _errors(ranking: Ranking) -> Iterator[str]:
    if not ranking.errors:
        return
    yield (
        f"<h2>Errors</h2>\n<p>{len(ranking.errors)} in all; each is in <code>errors.csv</code>.</p>"
    )
    groups = wording.error_groups(wording.select_errors(ranking))
    rows = [
        (step, reason, f"{len(names)}: {wording.first_few(names)}")
        for step, reason, names in groups
    ]
    yield table("Errors", ("tried", "reason", "examples"), rows, left=True)
