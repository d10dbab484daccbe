"""Print heat maps and ranked sources as text.

Shades are block characters, so they also work in a pipe. A terminal adds colours.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mixlens.views.labels import printable

_SHADES = " ░▒▓█"
_COLOURS = ("grey37", "deep_sky_blue4", "deep_sky_blue1", "spring_green1", "yellow1")
_LONGEST = 24  # characters of a source next to its layers
_NUMBER = 7  # width of `number`
WIDEST = 40  # most columns of a matrix in a terminal


def shade(value: float, largest: float) -> Text:
    """Return two characters, which are darker for larger scores. Negative scores have a minus
    sign.
    """
    share = 0.0 if largest <= 0 or not np.isfinite(value) else min(1.0, abs(value) / largest)
    step = min(len(_SHADES) - 1, int(share * (len(_SHADES) - 1) + 0.5))
    return Text(
        ("-" if value < 0 and step else _SHADES[step]) + _SHADES[step], style=_COLOURS[step]
    )


def show(console: Console, tables: Sequence[Table]) -> None:
    """Print tables, with an empty line between them."""
    for number, table in enumerate(tables):
        if number:
            console.print()
        console.print(table)


def blocks(count: int, at_once: int) -> list[range]:
    """Divide `count` columns into ranges of nearly equal size, with at most `at_once` columns
    each.
    """
    parts = max(1, -(-count // max(1, at_once)))
    edges = [round(part * count / parts) for part in range(parts + 1)]
    return [range(start, stop) for start, stop in itertools.pairwise(edges)]


def matrix(
    scores: np.ndarray, rows: Sequence[str], columns: Sequence[str], width: int
) -> list[Table]:
    """Return tables with one row per target and one column per source, as shades.

    Each row is scaled by its own largest score. There are several tables if the sources do not fit
    the width.
    """
    labels = [printable(label) for label in rows]
    cell = max(2, len(str(len(columns) - 1))) + 1
    largest = [float(np.nanmax(np.abs(values))) if len(values) else 0.0 for values in scores]
    tables: list[Table] = []
    for block in blocks(len(columns), (width - _widest(labels)) // cell):
        table = Table(box=None, pad_edge=False, padding=(0, 0, 0, 1), show_header=True)
        table.add_column("", justify="right", no_wrap=True, style="bold")
        for number in block:
            table.add_column(f"{number:>2}", no_wrap=True, style="dim")
        for label, values, top in zip(labels, scores, largest, strict=True):
            table.add_row(escape_markup(label), *[shade(float(values[i]), top) for i in block])
        tables.append(table)
    return tables


def numbers(
    scores: np.ndarray, rows: Sequence[str], columns: Sequence[str], width: int
) -> list[Table]:
    """Return tables with one row per target and one column per source, as numbers.

    There are several tables if the sources do not fit the width.
    """
    labels, names = [
        [printable(each) for each in names_of_axis] for names_of_axis in (rows, columns)
    ]
    cell = max(_NUMBER, *(max(map(len, [*name.split(), ""])) for name in names)) + 2
    tables: list[Table] = []
    for block in blocks(len(names), (width - _widest(labels) - 2) // cell):
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column("", justify="right", no_wrap=True, style="bold")
        for i in block:
            table.add_column(escape_markup(names[i]), justify="right")
        for label, values in zip(labels, scores, strict=True):
            table.add_row(escape_markup(label), *[number(values[i]) for i in block])
        tables.append(table)
    return tables


def by_layer(
    scores: np.ndarray,
    layers: Sequence[int],
    sources: Sequence[str],
    target_scores: np.ndarray,
    name: str,
    width: int,
    places: Sequence[int] | None = None,
) -> list[Table]:
    """Return tables for one target, with one row per source and one column per layer.

    Each layer is scaled by its own largest score. `target_scores` contains the aggregated scores,
    and `name` is the header of the column that shows them. `places` are the sources to show, by
    default all of them. There are several tables if the layers do not fit the width.
    """
    places = range(len(sources)) if places is None else places
    labels = [printable(sources[place]) for place in places]
    positions = len(str(len(sources) - 1)) + 1
    label_width = positions + min(_LONGEST, max(_widest(labels), len("source"))) + 1
    label_width += max(_NUMBER, len(name)) + 1
    largest = np.nanmax(np.abs(scores), axis=-1) if scores.size else np.zeros(len(layers))
    cell = max(2, *(len(str(layer)) for layer in layers)) + 1
    tables: list[Table] = []
    for block in blocks(len(layers), (width - label_width) // cell):
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column("", justify="right", style="dim", no_wrap=True)
        table.add_column("source", no_wrap=True, style="bold", max_width=_LONGEST)
        table.add_column(name if not tables else "", justify="right", no_wrap=True)
        for place in block:
            table.add_column(str(layers[place]), no_wrap=True)
        for column, label in zip(places, labels, strict=True):
            cells = [shade(float(scores[i, column]), float(largest[i])) for i in block]
            value = number(target_scores[column]) if not tables else ""
            table.add_row(str(column), escape_markup(label), value, *cells)
        tables.append(table)
    return tables


def _widest(labels: Sequence[str]) -> int:
    return max((cell_len(label) for label in labels), default=0)


def build_ranking(sources: Sequence[tuple[str, int, float]]) -> Table:
    """Return a table of the largest scores of one target, with bars."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), show_header=False)
    largest = max((abs(score) for _, _, score in sources), default=0.0)
    for place, (label, position, score) in enumerate(sources, 1):
        bar = "█" * round(24 * abs(score) / largest) if largest > 0 else ""
        table.add_row(
            f"{place}.",
            f"[bold]{escape_markup(printable(label))}[/bold]",
            f"[dim]{position}[/dim]",
            number(score),
            bar,
        )
    return table


def number(value: float) -> str:
    """Format a number with three decimals, or with an exponent if it is very small or large."""
    value = float(value)
    if value == 0 or not np.isfinite(value):
        return "0" if value == 0 else str(value)
    return f"{value:.3f}" if 1e-3 <= abs(value) < 1e4 else f"{value:.1e}"


def escape_markup(text: str) -> str:
    """Escape square brackets, because rich would interpret [MASK] as markup."""
    return text.replace("[", "\\[")
