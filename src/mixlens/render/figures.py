"""Figures as papers have them: lines by layer, heat maps, boxes, bars, scatter plots.

Each function returns a matplotlib figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 6.4, 4.0
# Okabe and Ito's colours: told apart with every kind of colour vision.
COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
    "#999999",
    "#F0E442",
)
MARKERS = "osD^vPX*h"


def panels(
    count: int, *, columns: int = 1, width: float = WIDTH, height: float = HEIGHT, **shared: Any
) -> tuple[Figure, list[Axes]]:
    """A figure with `count` axes in rows of `columns`; unused places stay empty."""
    try:
        from matplotlib.figure import Figure as New
    except ImportError as error:
        raise MissingExtra("matplotlib", "plot") from error
    columns = min(columns, count)
    rows = -(-count // columns)
    figure = New(figsize=(width * columns, height * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, **shared)
    places = list(grid.flat)
    for empty in places[count:]:
        empty.set_axis_off()
    return figure, places[:count]


def _finished(axes: Axes, title: str, x: str, y: str, *, legend: bool = False) -> None:
    axes.set_title(title, fontsize=11)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25, linewidth=0.6)
    if legend:
        outside: dict[str, Any] = (
            {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
            if len(axes.get_legend_handles_labels()[1]) > 5
            else {}
        )
        axes.legend(frameon=False, fontsize=8, **outside)


def style(number: int) -> dict[str, Any]:
    """A colour and a marker for the number-th series; beyond nine colours, other markers and line
    styles.
    """
    lines = ("-", "--", ":")
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[(number + number // len(COLOURS)) % len(MARKERS)],
        "markersize": 4,
        "linestyle": lines[number // len(COLOURS) % len(lines)],
        "linewidth": 1.4,
    }


def lines(
    series: Mapping[str, Sequence[float] | np.ndarray],
    *,
    x: Sequence[Any] | None = None,
    bands: Mapping[str, tuple[Any, Any]] | None = None,
    title: str = "",
    x_label: str = "layer",
    y_label: str = "",
    axes: Axes | None = None,
) -> Figure:
    """One line for each named series, with a band (low, high) where one is given."""
    figure, axes = _place(axes)
    for number, (name, values) in enumerate(series.items()):
        places = range(1, len(values) + 1) if x is None else x
        axes.plot(places, values, label=name, **style(number))
        if bands and name in bands:
            axes.fill_between(
                places, *bands[name], color=COLOURS[number % len(COLOURS)], alpha=0.15, linewidth=0
            )
    _finished(axes, title, x_label, y_label, legend=len(series) > 1)
    return figure


def boxes(
    groups: Mapping[str, Sequence[float] | np.ndarray],
    *,
    title: str = "",
    x_label: str = "layer",
    y_label: str = "",
    axes: Axes | None = None,
) -> Figure:
    """One box for each group: median, quartiles, whiskers at the 5th and 95th percentile."""
    figure, axes = _place(axes)
    axes.boxplot(
        list(groups.values()),
        tick_labels=list(groups),
        whis=(5, 95),
        showfliers=False,
        patch_artist=True,
        boxprops={"facecolor": COLOURS[5], "alpha": 0.6},
        medianprops={"color": COLOURS[1], "linewidth": 1.6},
    )
    _finished(axes, title, x_label, y_label)
    return figure


def bars(
    groups: Mapping[str, Mapping[str, float]],
    *,
    intervals: Mapping[str, Mapping[str, tuple[float, float]]] | None = None,
    title: str = "",
    x_label: str = "",
    y_label: str = "",
    axes: Axes | None = None,
) -> Figure:
    """Bars side by side: series -> category -> height."""
    figure, axes = _place(axes)
    categories = list(dict.fromkeys(name for heights in groups.values() for name in heights))
    places, width = np.arange(len(categories)), 0.8 / len(groups)
    for number, (series, heights) in enumerate(groups.items()):
        values = np.array([heights.get(name, np.nan) for name in categories])
        ends = None
        if intervals and series in intervals:
            found = np.array([intervals[series].get(name, (np.nan, np.nan)) for name in categories])
            ends = np.abs(np.stack([values - found[:, 0], found[:, 1] - values]))
        axes.bar(
            places + (number - (len(groups) - 1) / 2) * width,
            values,
            width,
            yerr=ends,
            label=series,
            color=COLOURS[number % len(COLOURS)],
            error_kw={"linewidth": 0.8},
        )
    long = max((len(name) for name in categories), default=0) > 6 and len(categories) > 4
    axes.set_xticks(
        places, categories, rotation=35 if long else 0, ha="right" if long else "center"
    )
    _finished(axes, title, x_label, y_label, legend=len(groups) > 1)
    return figure


def stacked(
    parts: Mapping[str, Sequence[float] | np.ndarray],
    *,
    x: Sequence[Any],
    title: str = "",
    x_label: str = "layer",
    y_label: str = "share",
    axes: Axes | None = None,
) -> Figure:
    """Shares on top of each other: part -> one height for each place."""
    figure, axes = _place(axes)
    floor = np.zeros(len(x))
    for number, (name, heights) in enumerate(parts.items()):
        values = np.asarray(heights, float)
        axes.bar(
            [str(place) for place in x],
            values,
            bottom=floor,
            label=name,
            color=COLOURS[number % len(COLOURS)],
            width=0.85,
        )
        floor += values
    _finished(axes, title, x_label, y_label, legend=True)
    return figure


def scatter(
    x: Any,
    y: Any,
    *,
    groups: Sequence[str] | None = None,
    title: str = "",
    x_label: str = "",
    y_label: str = "",
    axes: Axes | None = None,
) -> Figure:
    """Points, coloured by group where groups are named."""
    figure, axes = _place(axes)
    xs, ys = np.asarray(x, float), np.asarray(y, float)
    names = list(dict.fromkeys(groups)) if groups is not None else [""]
    for number, name in enumerate(names):
        chosen = np.array(
            [groups is None or group == name for group in (groups if groups is not None else xs)]
        )
        axes.scatter(
            xs[chosen],
            ys[chosen],
            s=7,
            alpha=0.5,
            label=name,
            color=COLOURS[number % len(COLOURS)],
            linewidths=0,
            rasterized=True,
        )
    _finished(axes, title, x_label, y_label, legend=groups is not None)
    return figure


def heat_map(
    values: Any,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str = "",
    x_label: str = "source",
    y_label: str = "target",
    scale: tuple[float | None, float | None] = (None, None),
    axes: Axes | None = None,
) -> Figure:
    """A matrix in one hue; with both signs, blue below zero and red above."""
    array = np.asarray(values, float)
    size = max(3.0, 0.24 * max(array.shape) + 1.6)
    figure, axes = _place(axes, size, size)
    signed = bool((array < 0).any())
    low, high = scale
    if signed and scale == (None, None):
        high = float(np.nanmax(np.abs(array)))
        low = -high
    image = axes.imshow(
        array, cmap="RdBu_r" if signed else "Blues", vmin=low, vmax=high, aspect="auto"
    )
    axes.set_xticks(range(len(columns)), columns, rotation=90, fontsize=7)
    axes.set_yticks(range(len(rows)), rows, fontsize=7)
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    figure.colorbar(image, ax=axes, shrink=0.7)
    return figure


def _place(axes: Axes | None, width: float = WIDTH, height: float = HEIGHT) -> tuple[Figure, Axes]:
    if axes is not None:
        figure: Any = axes.figure
        return figure, axes
    figure, places = panels(1, width=width, height=height)
    return figure, places[0]
