"""Draw mean ranks of measures as bars."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mixlens.views.canvas import finish, panels, styled
from mixlens.views.figures.dot_panels import Dot, name_rows
from mixlens.views.style import LIGHT, measure_styles, series_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled
def rank_bars(ranks: Mapping[str, Dot]) -> Figure:
    """Return mean ranks with their intervals, the first on top, each measure in its own colour."""
    figure, (axes,) = panels(1, width=7.5, height=0.27 * len(ranks) + 0.8)
    styles = measure_styles()
    for place, (name, (value, low, high)) in enumerate(ranks.items()):
        colour = styles.get(name, series_style(0)).colour
        axes.barh(place, value, color=colour, height=0.62, alpha=0.85)
        if not math.isnan(low):
            axes.plot([low, high], [place, place], color=LIGHT["ink"], linewidth=1.2)
    finish(axes, x="mean rank (1 = best), with its 95 % interval")
    name_rows(axes, list(ranks))
    axes.set_xlim(0, None)
    return figure
