"""Draw points: one number against another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.views.canvas import axes_or_new, finish, styled
from mixlens.views.style import LIGHT, styles_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@styled
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
    """Return a scatter plot, coloured by group if there are groups."""
    figure, axes = axes_or_new(axes)
    xs, ys = np.asarray(x, float), np.asarray(y, float)
    of_group = np.array([""] * len(xs) if groups is None else list(groups))
    styles = styles_of(list(dict.fromkeys(of_group.tolist())))
    for name, style in styles.items():
        chosen = of_group == name
        axes.scatter(
            xs[chosen],
            ys[chosen],
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
