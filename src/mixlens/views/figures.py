"""Draw charts of numbers: bars, boxes, lines and points.

Each function returns a matplotlib figure. Some can draw into existing axes instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.views.canvas import (
    apply_style,
    axes_or_new,
    caption,
    drawable,
    finish,
    name_ticks,
    panels,
)
from mixlens.views.matrix import heat_map
from mixlens.views.style import LIGHT, SERIES, styles_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


__all__ = [
    "bars",
    "boxes",
    "caption",
    "heat_map",
    "lines",
    "panels",
    "scatter",
    "stack_bars",
]

_HATCHES = {"-": "", "--": "///", ":": "..."}  # hatches, like the dashes of lines


@apply_style
def bars(
    groups: Mapping[str, Mapping[str, float]],
    *,
    intervals: Mapping[str, Mapping[str, tuple[float, float]]] | None = None,
    title: str = "",
    y_label: str = "",
) -> Figure:
    """Return a chart of grouped bars. `groups` maps each series to the height of each category."""
    figure, axes = axes_or_new(None)
    categories = list(dict.fromkeys(name for heights in groups.values() for name in heights))
    places, width = np.arange(len(categories)), 0.8 / len(groups)
    styles = styles_of(list(groups))
    for number, (series, heights) in enumerate(groups.items()):
        values = np.array([heights.get(name, np.nan) for name in categories])
        ends = None
        if intervals and series in intervals:
            interval_ends = np.array(
                [intervals[series].get(name, (np.nan, np.nan)) for name in categories]
            )
            ends = np.abs(np.stack([values - interval_ends[:, 0], interval_ends[:, 1] - values]))
        axes.bar(
            places + (number - (len(groups) - 1) / 2) * width,
            values,
            width,
            yerr=ends,
            label=series,
            color=styles[series].colour,
            hatch=_HATCHES[styles[series].dash],
            edgecolor="white",
            linewidth=0.3,
            error_kw={"linewidth": 0.8},
        )
    long = max((len(name) for name in categories), default=0) > 6 and len(categories) > 4
    rotation_options: dict[str, Any] = {"rotation": 35, "ha": "right"} if long else {}
    axes.grid(axis="y", color=LIGHT["line"], linewidth=0.6)
    finish(axes, title, "", y_label, legend=len(groups) > 1)
    name_ticks(axes, "x", places, categories, **rotation_options)
    return figure


@apply_style
def stack_bars(
    parts: Mapping[str, Sequence[float] | np.ndarray],
    *,
    x: Sequence[Any],
    title: str = "",
) -> Figure:
    """Return a chart of stacked bars. `parts` maps each name to its heights at `x`."""
    figure, axes = axes_or_new(None)
    floor, styles = np.zeros(len(x)), styles_of(list(parts))
    for name, heights in parts.items():
        values = np.asarray(heights, float)
        axes.bar(
            [str(place) for place in x],
            values,
            bottom=floor,
            label=name,
            color=styles[name].colour,
            hatch=_HATCHES[styles[name].dash],
            edgecolor="white",
            linewidth=0.3,
            width=0.85,
        )
        floor += values
    finish(axes, title, "layer", "share", legend=True)
    return figure


@apply_style
def boxes(
    groups: Mapping[str, Sequence[float] | np.ndarray],
    *,
    title: str = "",
    x_label: str = "layer",
    y_label: str = "",
) -> Figure:
    """Return a box plot with one box for each group.

    Boxes show median and quartiles, and whiskers the 5th and 95th percentiles.
    """
    figure, axes = axes_or_new(None)
    axes.boxplot(
        list(groups.values()),
        whis=(5, 95),
        showfliers=False,
        patch_artist=True,
        boxprops={"facecolor": SERIES[4], "alpha": 0.5},
        medianprops={"color": SERIES[1], "linewidth": 1.6},
    )
    axes.grid(axis="y", color=LIGHT["line"], linewidth=0.6)
    finish(axes, title, x_label, y_label)
    name_ticks(axes, "x", range(1, len(groups) + 1), groups)
    return figure


@apply_style
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
    """Return a line chart with one line for each named series.

    `bands` adds a shaded band (low, high) to a line. Without `x`, the values belong to layers,
    which are numbered from 0. Each measure has its own style.
    """
    figure, axes = axes_or_new(axes)
    styles = styles_of(list(series))
    for label, (name, values) in zip(drawable(series), series.items(), strict=True):
        places = range(len(values)) if x is None else x
        axes.plot(places, values, label=label, **styles[name].line)
        if bands and name in bands:
            axes.fill_between(
                places, *bands[name], color=styles[name].colour, alpha=0.15, linewidth=0
            )
    if x is None:
        axes.locator_params(axis="x", integer=True)
    axes.grid(axis="y", color=LIGHT["line"], linewidth=0.6)
    finish(axes, title, x_label, y_label, legend=len(series) > 1)
    return figure


@apply_style
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
    """Return a scatter plot. If groups are passed, they have different colours."""
    figure, axes = axes_or_new(axes)
    xs, ys = np.asarray(x, float), np.asarray(y, float)
    of_group = np.array([""] * len(xs) if groups is None else list(groups))
    styles = styles_of(list(dict.fromkeys(of_group.tolist())))
    for name, style in styles.items():
        in_group = of_group == name
        axes.scatter(
            xs[in_group],
            ys[in_group],
            s=7,
            alpha=0.5,
            label=name,
            color=style.colour,
            marker=style.marker or "o",
            linewidths=0,
            rasterized=True,  # many points would make a vector file slow to open
        )
    axes.grid(axis="y", color=LIGHT["line"], linewidth=0.6)
    finish(axes, title, x_label, y_label, legend=groups is not None)
    legend: Any = axes.get_legend()
    for handle in legend.legend_handles if legend else ():
        handle.set_alpha(1)
        handle.set_sizes([22])
    return figure
