"""Write the report as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from mixlens.benchmark.report import wording
from mixlens.evaluations import evaluations

if TYPE_CHECKING:
    from mixlens.benchmark.ranking import Ranking


def write_markdown(ranking: Ranking, plots: Mapping[str, str]) -> str:
    """Return the Markdown report. `plots` maps the titles of plots to their files."""
    return "\n".join(_lines(ranking, plots)) + "\n"


def _lines(ranking: Ranking, plots: Mapping[str, str]) -> Iterator[str]:
    yield from (
        "# Which measure to trust",
        "",
        wording.headline(ranking) + ".",
        "",
        "## Verdict",
        "",
    )
    yield from (f"- {_escape(line)}" for line in ranking.verdict.splitlines())
    if ranking.standings:
        yield from ("", "## Ranked measures", "")
        yield from _rank_lines(ranking)
        yield ""
        yield from (f"- {sign} {meaning}" for sign, meaning in wording.LEGEND.items())
    for title, path in plots.items():
        yield from ("", f"## {title}", "", f"![{title}]({path})")
    yield from ("", "## What each evaluation asks", "")
    specs = evaluations()
    for name, column in ranking.columns.items():
        yield (
            f"- **{name}** ({wording.DIRECTIONS[column.direction]}): {column.summary}."
            f" {specs[name].citation}."
        )
    if ranking.of_model:
        yield from ("", "## About the model", "")
        for name, result in ranking.of_model.items():
            value = f"{wording.number(result.value)} {wording.between(result.interval)}".strip()
            yield f"- **{name}**: {value}. {specs[name].summary}."
            numbers, by_layer = wording.report_details(specs[name], result)
            yield from (f"    - {key}: {text}" for key, text in numbers.items())
            for heads, rows in by_layer:
                for words, *cells in rows:
                    pairs = zip(heads[1:], cells, strict=True)
                    cells_by_head = ", ".join(f"{head}: {cell}" for head, cell in pairs)
                    yield f"    - {words}, by layer: {cells_by_head}"
    if ranking.left_out:
        yield from ("", "## Left out", "")
        yield from (f"- **{name}**: {_escape(reason)}" for name, reason in ranking.left_out.items())
    if ranking.not_judged:
        yield from ("", "## Not judged", "")
        yield from (
            f"- **{name}**: {_escape(reason)}" for name, reason in ranking.not_judged.items()
        )
    if ranking.errors:
        yield from (
            "",
            "## Errors",
            "",
            f"{len(ranking.errors)} in all; each is in `errors.csv`.",
            "",
        )
        for step, reason, names in wording.error_groups(wording.select_errors(ranking)):
            listed = _escape(wording.first_few(names))
            yield f"- {step}, {len(names)} × {_escape(reason)}: {listed}"
    yield from ("", "## Settings", "")
    yield from (f"- {key}: {_escape(str(value))}" for key, value in ranking.settings.items())


def _rank_lines(ranking: Ranking) -> Iterator[str]:
    heads = [
        f"{name} {wording.ARROWS[column.direction]}".strip()
        for name, column in ranking.columns.items()
    ]
    yield _row(["", "measure", "mean rank", "evaluations", *heads, "s per text"])
    yield _row(["---:", "---", *["---"] * (len(heads) + 2), "---:"])
    for place, (measure, standing) in enumerate(ranking.standings.items(), 1):
        cells = []
        for name, column in ranking.columns.items():
            result = column.results.get(measure)
            marks = ranking.marks[name].get(measure)
            value = (
                ""
                if result is None
                else f"{wording.number(result.value)} {wording.between(result.interval)}"
            )
            cells.append(" ".join(f"{value} {wording.signs(marks) if marks else ''}".split()))
        mean, interval = standing.mean_rank, standing.interval
        rank = f"{wording.number(mean, 2)} {wording.between(interval, 2)}".strip()
        yield _row(
            [
                str(place),
                measure,
                rank,
                str(standing.judged_by),
                *cells,
                wording.seconds(ranking.seconds.get(measure)),
            ]
        )


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _escape(text: str) -> str:
    """Return text with Markdown characters escaped, in one line."""
    for sign in "\\`*_[]<>|":
        text = text.replace(sign, f"\\{sign}")
    return text
