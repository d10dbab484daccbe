"""Draw bars side by side, or stacked as parts of a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.views.canvas import axes_or_new, finish, name_ticks, styled
from mixlens.views.style import LIGHT, styles_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@styled
def bars(
    groups: Mapping[str, Mapping[str, float]],
    *,
    intervals: Mapping[str, Mapping[str, tuple[float, float]]] | None = None,
    title: str = "",
    x_label: str = "",
    y_label: str = "",
    axes: Axes | None = None,
) -> Figure:
    """Return bars side by side: series -> category -> height."""
    figure, axes = axes_or_new(axes)
    categories = list(dict.fromkeys(name for heights in groups.values() for name in heights))
    places, width = np.arange(len(categories)), 0.8 / len(groups)
    styles = styles_of(list(groups))
    for number, (series, heights) in enumerate(groups.items()):
        values = np.array([heights.get(name, np.nan) for name in categories])
        ends = None
        if intervals and series in intervals:
            given = np.array([intervals[series].get(name, (np.nan, np.nan)) for name in categories])
            ends = np.abs(np.stack([values - given[:, 0], given[:, 1] - values]))
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
    turned: dict[str, Any] = {"rotation": 35, "ha": "right"} if long else {}
    axes.grid(axis="y", color=LIGHT["line"], linewidth=0.6)
    finish(axes, title, x_label, y_label, legend=len(groups) > 1)
    name_ticks(axes, "x", places, categories, **turned)
    return figure


_HATCHES = {"-": "", "--": "///", ":": "..."}  # hatches, like the dashes of lines


@styled
def stacked(
    parts: Mapping[str, Sequence[float] | np.ndarray],
    *,
    x: Sequence[Any],
    title: str = "",
    x_label: str = "layer",
    y_label: str = "share",
    axes: Axes | None = None,
) -> Figure:
    """Return stacked bars: part -> one height for each place."""
    figure, axes = axes_or_new(axes)
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
    finish(axes, title, x_label, y_label, legend=True)
    return figure
