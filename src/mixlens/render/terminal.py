"""Heat maps and ranked sources as text.

Shades are block characters, so that they survive a pipe; colour is added on a terminal.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.table import Table
from rich.text import Text

from mixlens.render.labels import printable

_SHADES = " ░▒▓█"
_COLOURS = ("grey37", "deep_sky_blue4", "deep_sky_blue1", "spring_green1", "yellow1")
WIDEST = 40  # columns of a matrix that a terminal can still show


def shade(value: float, largest: float) -> Text:
    """Two characters, darker for larger; a minus sign in front of negative scores."""
    share = 0.0 if largest <= 0 or not np.isfinite(value) else min(1.0, abs(value) / largest)
    step = min(len(_SHADES) - 1, int(share * (len(_SHADES) - 1) + 0.5))
    return Text(
        ("-" if value < 0 and step else _SHADES[step]) + _SHADES[step], style=_COLOURS[step]
    )


def matrix(scores: np.ndarray, rows: Sequence[str], columns: Sequence[str]) -> Table:
    """Targets down, sources across; each row is shaded by its own largest score."""
    table = Table(box=None, pad_edge=False, padding=(0, 0, 0, 1), show_header=True)
    table.add_column("", justify="right", no_wrap=True, style="bold")
    for number in range(len(columns)):
        table.add_column(f"{number:>2}", no_wrap=True, style="dim")
    for label, values in zip(rows, scores, strict=True):
        largest = float(np.nanmax(np.abs(values))) if len(values) else 0.0
        table.add_row(
            escaped(printable(label)), *[shade(float(value), largest) for value in values]
        )
    return table


def numbers(scores: np.ndarray, rows: Sequence[str], columns: Sequence[str]) -> Table:
    """Targets down, sources across, each score as a number."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("", justify="right", no_wrap=True, style="bold")
    for column in columns:
        table.add_column(escaped(printable(column)), justify="right")
    for label, values in zip(rows, scores, strict=True):
        table.add_row(escaped(printable(label)), *[number(value) for value in values])
    return table


def by_layer(scores: np.ndarray, layers: Sequence[int], sources: Sequence[str]) -> Table:
    """Sources down, layers across, for one target: each layer is shaded by its own largest score,
    and the last is printed too.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", justify="right", style="dim", no_wrap=True)
    table.add_column("source", no_wrap=True, style="bold")
    for layer in layers:
        table.add_column(str(layer), no_wrap=True)
    table.add_column(f"layer {layers[-1]}", justify="right", no_wrap=True)
    largest = np.nanmax(np.abs(scores), axis=-1) if scores.size else np.zeros(len(layers))
    for column, label in enumerate(sources):
        cells = [
            shade(float(scores[row, column]), float(largest[row])) for row in range(len(layers))
        ]
        table.add_row(str(column), escaped(printable(label)), *cells, number(scores[-1, column]))
    return table


def ranked(sources: Sequence[tuple[str, int, float]]) -> Table:
    """The largest scores of one row, with bars."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), show_header=False)
    largest = max((abs(score) for _, _, score in sources), default=0.0)
    for place, (label, position, score) in enumerate(sources, 1):
        bar = "█" * round(24 * abs(score) / largest) if largest > 0 else ""
        table.add_row(
            f"{place}.",
            f"[bold]{escaped(printable(label))}[/bold]",
            f"[dim]{position}[/dim]",
            number(score),
            bar,
        )
    return table


def number(value: float) -> str:
    """A number with three decimals, or with an exponent if it is very small or large."""
    value = float(value)
    if value == 0 or not np.isfinite(value):
        return "0" if value == 0 else str(value)
    return f"{value:.3f}" if 1e-3 <= abs(value) < 1e4 else f"{value:.1e}"


def escaped(text: str) -> str:
    """Square brackets as they are: rich would read [MASK] as markup."""
    return text.replace("[", "\\[")
