"""Print the ranking in the terminal, as several tables if one would be too wide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from mixlens.benchmark.plan import BASELINE
from mixlens.benchmark.report import wording
from mixlens.errors import format_count

if TYPE_CHECKING:
    from mixlens.benchmark.ranking import Ranking

_GAP = 2


def show(ranking: Ranking, console: Console) -> None:
    """Print the table, its legend, results about the model, excluded measures and evaluations, and
    the verdict.
    """
    console.print(wording.headline(ranking), markup=False, style="bold")
    first = _first_columns(ranking)
    for part in _parts([*first, *_evaluations(ranking)], len(first), console.width):
        console.print(part)
        console.print()
    signs = {
        sign
        for marks in ranking.marks.values()
        for mark in marks.values()
        for sign in wording.signs(mark)
    }
    for sign, meaning in wording.LEGEND.items():
        if sign in signs:
            console.print(f"{sign} {meaning}", style="dim", markup=False)
    for name, result in ranking.of_model.items():
        console.print(
            f"the model, {name}: {wording.number(result.value)}"
            f" {wording.between(result.interval)}".rstrip(),
            markup=False,
        )
    for name, reason in ranking.left_out.items():
        console.print(f"left out: {name}: {reason}", style="dim", markup=False)
    for name, reason in ranking.not_judged.items():
        console.print(f"not judged: {name}: {reason}", style="dim", markup=False)
    errors = wording.select_errors(ranking)
    if errors:
        console.print(f"{format_count(len(errors), 'error')} in single examples:", markup=False)
    for step, reason, names in wording.error_groups(errors)[:5]:
        console.print(
            f"  {step}, {len(names)} × {reason}: {wording.first_few(names, 3)}",
            style="dim",
            markup=False,
        )
    console.print()
    for number, line in enumerate(ranking.verdict.splitlines()):
        console.print(line, markup=False, style="bold" if number == 0 else "")


Column = tuple[str, list[str]]


def _first_columns(ranking: Ranking) -> list[Column]:
    ranks = [
        f"{wording.number(s.mean_rank, 1)} {wording.spread(s.interval, 1)}".strip()
        for s in ranking.standings.values()
    ]
    spent = [wording.seconds(ranking.seconds.get(measure)) for measure in ranking.order]
    return [("measure", list(ranking.order)), ("mean rank", ranks), ("s/text", spent)]


def _evaluations(ranking: Ranking) -> Iterator[Column]:
    for name, column in ranking.columns.items():
        cells = []
        for measure in ranking.order:
            result, marks = column.results.get(measure), ranking.marks[name].get(measure)
            value = (
                ""
                if result is None
                else f"{wording.number(result.value)} {wording.spread(result.interval)}".strip()
            )
            cells.append(f"{value} {wording.signs(marks) if marks else '':<2}")
        yield f"{name} {wording.ARROWS[column.direction]}".strip(), cells


def _parts(columns: Sequence[Column], repeated: int, width: int) -> Iterator[Table]:
    """Yield tables that fit the terminal width. The first column of each table has the measure
    names.
    """
    widths = (
        [max(len(head), *map(len, cells)) + _GAP for head, cells in columns]
        if columns[0][1]
        else []
    )
    now: list[int] = list(range(repeated)) if widths else []
    for number in range(repeated, len(widths)):
        if sum(widths[i] for i in now) + widths[number] > width and len(now) > 1:
            yield _table([columns[i] for i in now])
            now = [0]
        now.append(number)
    if now:
        yield _table([columns[i] for i in now])


def _table(columns: Sequence[Column]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for number, (head, _) in enumerate(columns):
        table.add_column(head, justify="left" if number == 0 else "right", no_wrap=True)
    for cells in zip(*(cells for _, cells in columns), strict=True):
        table.add_row(*cells, style="dim" if cells[0] == BASELINE else "")
    return table
