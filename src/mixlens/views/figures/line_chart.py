"""Draw lines over the layers (or another axis), with intervals as bands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.views.canvas import axes_or_new, drawable, finish, styled
from mixlens.views.style import LIGHT, styles_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@styled
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
    """Return one line for each named series, with a band (low, high) if there is one.

    Without `x`, the values are those of layers, numbered from 0. Each measure has its own style.
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
