"""The report as one HTML page that needs nothing beside it: its style and its charts are inside,
and it follows light and dark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING

from mixlens.evaluations import evaluations
from mixlens.trust.plan import BASELINE
from mixlens.trust.report import wording

if TYPE_CHECKING:
    from mixlens.trust.ranking import Ranking

_STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c2128; --quiet: #59636e }
:root { --line: #d6dae0; --band: #f3f5f8; --mark: #0a5dab }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14181d; --ink: #e4e8ed; --quiet: #a3adb8 }
  :root { --line: #363d46; --band: #1d232a; --mark: #7cbcf5 }
}
body { background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif }
body { max-width: 88rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; margin-bottom: .2rem } h2 { font-size: 1.2rem; margin-top: 2.2rem }
.quiet, small { color: var(--quiet) }
.verdict { border-left: 4px solid var(--mark); background: var(--band); padding: .6rem 1rem }
.verdict p:first-child { font-weight: 600; font-size: 1.05rem } .verdict p { margin: .35rem 0 }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .82rem }
caption { text-align: left; color: var(--quiet); padding-bottom: .4rem }
th, td { padding: .3rem .45rem; text-align: right; white-space: nowrap; vertical-align: top }
th, td { border-bottom: 1px solid var(--line) }
th[scope=row], .left { text-align: left }
th[scope=row] { position: sticky; left: 0; background: var(--paper) }
td.left { white-space: normal }
tr.baseline { font-style: italic } td small { display: block } td.best { font-weight: 700 }
.sign { color: var(--mark); margin-left: .3em; text-decoration: none }
dt { font-weight: 600; margin-top: .6rem } dd { margin-left: 1.2rem } svg { color: var(--ink) }
code { overflow-wrap: anywhere }
"""


def page(ranking: Ranking, charts: Mapping[str, str]) -> str:
    """`charts`: title -> SVG."""
    title = "Which measure to trust"
    body = "\n".join(_body(ranking, charts))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{title}:'
        f" {escape(wording.headline(ranking))}</title>\n"
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _body(ranking: Ranking, charts: Mapping[str, str]) -> Iterator[str]:
    yield f'<p class="quiet">{escape(wording.headline(ranking))}</p>'
    yield '<section class="verdict" aria-label="Verdict">'
    yield from (f"<p>{escape(line)}</p>" for line in ranking.verdict.splitlines())
    yield "</section>"
    if ranking.standings:
        yield "<h2>Ranked measures</h2>"
        yield from _ranked(ranking)
    for title, svg in charts.items():
        yield f"<h2>{escape(title)}</h2>\n<figure style='margin:0'>{svg}</figure>"
    yield from _asked(ranking)
    yield from _of_model(ranking)
    if ranking.left_out:
        yield "<h2>Left out</h2>\n<dl>"
        yield from (
            f"<dt>{escape(name)}</dt><dd>{escape(reason)}</dd>"
            for name, reason in ranking.left_out.items()
        )
        yield "</dl>"
    yield from _errors(ranking)
    yield "<h2>Settings</h2>\n<dl>"
    yield from (
        f"<dt>{escape(key)}</dt><dd><code>{escape(str(value))}</code></dd>"
        for key, value in ranking.settings.items()
    )
    yield "</dl>"


def _ranked(ranking: Ranking) -> Iterator[str]:
    yield '<div class="wide" role="region" aria-label="Ranked measures" tabindex="0">\n<table>'
    yield (
        "<caption>Best first. Under each value its 95 % bootstrap interval over the"
        " examples.</caption>\n<thead><tr>"
    )
    heads = [
        f"{name} {wording.ARROWS[column.direction]}".strip()
        for name, column in ranking.columns.items()
    ]
    yield (
        '<th scope="col" class="left">measure</th><th scope="col">mean rank</th><th'
        ' scope="col">evaluations</th>'
    )
    yield (
        "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
        + '<th scope="col">s per text</th></tr></thead>\n<tbody>'
    )
    for place, (measure, standing) in enumerate(ranking.standings.items(), 1):
        interval = wording.between(standing.interval, 2)
        rank = f"{wording.number(standing.mean_rank, 2)}<small>{interval}</small>"
        cells = "".join(_cell(ranking, name, measure) for name in ranking.columns)
        spent = wording.seconds(ranking.seconds.get(measure))
        kind = ' class="baseline"' if measure == BASELINE else ""
        name = f'<th scope="row">{place}. {escape(measure)}</th>'
        judged = f"<td>{rank}</td><td>{standing.judged_by}</td>"
        yield f"<tr{kind}>{name}{judged}{cells}<td>{spent}</td></tr>"
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


def _asked(ranking: Ranking) -> Iterator[str]:
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
        details = wording.short_details(result)
        if details:
            yield (
                "<ul>"
                + "".join(
                    f"<li>{escape(key)}: {escape(text)}</li>" for key, text in details.items()
                )
                + "</ul>"
            )
        yield "</dd>"
    yield "</dl>"


def _errors(ranking: Ranking) -> Iterator[str]:
    if not ranking.errors:
        return
    yield (
        f"<h2>Errors</h2>\n<p>{len(ranking.errors)} in all; each is in <code>errors.csv</code>.</p>"
    )
    yield '<div class="wide" role="region" aria-label="Errors" tabindex="0"><table><thead><tr>'
    yield (
        "".join(
            f'<th scope="col" class="left">{head}</th>' for head in ("tried", "reason", "examples")
        )
        + "</tr></thead>\n<tbody>"
    )
    for tried, reason, names in wording.error_groups(ranking.errors):
        some = escape(wording.some(names))
        yield (
            f'<tr><th scope="row">{escape(tried)}</th><td class="left">{escape(reason)}</td><td'
            f' class="left">{len(names)}: {some}</td></tr>'
        )
    yield "</tbody></table></div>"
