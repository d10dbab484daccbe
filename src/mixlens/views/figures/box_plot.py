"""Draw boxes for the distribution of values in each group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mixlens.views.canvas import axes_or_new, finish, name_ticks, styled
from mixlens.views.style import LIGHT, SERIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@styled
def boxes(
    groups: Mapping[str, Sequence[float] | np.ndarray],
    *,
    title: str = "",
    x_label: str = "layer",
    y_label: str = "",
    axes: Axes | None = None,
) -> Figure:
    """Return one box for each group: median, quartiles, whiskers at the 5th and 95th percentile."""
    figure, axes = axes_or_new(axes)
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
