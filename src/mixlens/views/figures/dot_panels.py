"""Draw a panel for each evaluation, with a dot and its interval for every measure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mixlens.views.canvas import finish, name_ticks, panels, styled
from mixlens.views.style import BASELINE, LIGHT, measure_styles, series_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Dot = tuple[float, float, float]
"""A value with the ends of its interval, NaN if it has none."""


@styled
def dot_panels(
    groups: Mapping[str, Mapping[str, Dot]], order: Sequence[str], *, baseline: str
) -> Figure:
    """Return panels: title -> measure -> value. A dashed line marks the baseline."""
    columns = min(3, len(groups))
    figure, places = panels(
        len(groups),
        columns=columns,
        width=2.6 + 2.0 / columns,
        height=0.2 * len(order) + 0.9,
        sharey=True,
    )
    styles = measure_styles()
    for axes, (title, dots) in zip(places, groups.items(), strict=True):
        if baseline in dots:
            axes.axvline(dots[baseline][0], color=BASELINE, linewidth=1, linestyle="--")
        for place, measure in enumerate(order):
            if measure in dots:
                value, low, high = dots[measure]
                style = styles.get(measure, series_style(0))
                if not math.isnan(low):
                    axes.plot([low, high], [place, place], color=style.colour, linewidth=1.6)
                axes.plot([value], [place], style.marker or "o", color=style.colour, markersize=4.5)
        axes.grid(axis="y", color=LIGHT["line"], linewidth=0.6)
        finish(axes, title)
        axes.locator_params(axis="x", nbins=5)
        name_rows(axes, order)
    return figure


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Write the names down the left side, the first on top."""
    name_ticks(axes, "y", range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
