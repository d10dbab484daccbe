"""Draw heat maps: a matrix of scores with named rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.views.canvas import apply_style, axes_or_new, finish, name_ticks
from mixlens.views.labels import select_ticks
from mixlens.views.style import FONT, SMALL, SMALLEST, WIDEST, shades

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CELL = 0.17  # inches, room for a label of 8 points
_MARGIN = 1.9  # inches for labels, name and scale


def side(count: int, cell: float = _CELL, most: float = WIDEST) -> float:
    """Return the size in inches of `count` rows or columns, within limits."""
    return float(np.clip(cell * count, 1.2, most - _MARGIN))


@apply_style
def heat_map(
    values: Any,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str = "",
    x_label: str = "source",
    y_label: str = "target",
    scale: tuple[float | None, float | None] = (None, None),
    signed: bool | None = None,
    colour_bar: str | None = "",
    axes: Axes | None = None,
    width: float | None = None,
) -> Figure:
    """Return a heat map, with one hue for non-negative scores or two hues for signed scores.

    `signed` says whether scores may be negative (by default, whether any score is). `colour_bar` is
    the label of the colour bar, or None to omit it. If there is not enough room for all labels,
    only every second, third … label is shown, with its position. `width` is the width of a new
    figure in inches.
    """
    array = np.asarray(values, float)
    is_own_figure = axes is None
    size = width or side(array.shape[1]) + _MARGIN, side(array.shape[0]) + _MARGIN
    figure, axes = axes_or_new(axes, *size)
    signed = bool((array < 0).any()) if signed is None else signed
    image = draw_matrix(axes, array, _limits(array, scale, signed), signed)
    finish(axes, title)
    inches = (size[0] - _MARGIN, size[1] - _MARGIN) if is_own_figure else _panel_inches(axes)
    name_axis(axes, "x", columns, x_label, inches[0])
    name_axis(axes, "y", rows, y_label, inches[1])
    if colour_bar is not None:
        scale_bar(figure, image, [axes], colour_bar)
    return figure


def draw_matrix(
    axes: Axes, array: np.ndarray, scale: tuple[float | None, float | None], signed: bool
) -> Any:
    """Draw the matrix as an image."""
    axes.spines[:].set_visible(False)
    return axes.imshow(
        array,
        cmap=shades(signed),
        vmin=scale[0],
        vmax=scale[1],
        aspect="auto",
        interpolation="nearest",
    )


def scale_bar(figure: Figure, image: Any, places: Sequence[Axes], name: str) -> None:
    """Draw the colour bar."""
    bar = figure.colorbar(image, ax=list(places), shrink=0.8, pad=0.02, fraction=0.05, aspect=30)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=SMALL, length=2, labelfontfamily=FONT)
    bar.set_label(name, fontsize=SMALL)


def _panel_inches(axes: Axes) -> tuple[float, float]:
    """Return the approximate inner size of one panel of a figure, in inches."""
    figure: Any = axes.figure
    spec: Any = axes.get_subplotspec()
    rows, columns = spec.get_gridspec().get_geometry()
    width, height = figure.get_size_inches()
    return max(0.5, width / columns - 0.9), max(0.5, height / rows - 0.9)


def _limits(
    array: np.ndarray, scale: tuple[float | None, float | None], signed: bool
) -> tuple[float | None, float | None]:
    if scale != (None, None) or not np.isfinite(array).any():
        return scale
    largest = float(np.nanmax(np.abs(array))) or 1.0
    return (-largest if signed else 0.0), largest


def name_axis(axes: Axes, which: str, labels: Sequence[str], name: str, inches: float) -> None:
    """Label an axis in the largest font size that fits, from 8 down to 5.5 points.

    If even the smallest size does not fit, only some of the labels are drawn.
    """
    room = inches * 72 / max(1, len(labels))
    points = float(np.clip(room / 1.25, SMALLEST, SMALL))
    places, texts, note = select_ticks(labels, int(inches * 72 / (points * 1.25)) or 1)
    across = which == "x"
    is_vertical = across and any(len(text) * points * 0.62 > room * 0.95 for text in texts)
    name_ticks(axes, which, places, texts, fontsize=points, rotation=90 if is_vertical else 0)
    fits = len(name + note) * SMALL * 0.62 < inches * 72  # labels contain positions anyway
    (axes.set_xlabel if across else axes.set_ylabel)(name + (note if name and fits else ""))
    axes.tick_params(axis="x" if across else "y", length=2 if len(labels) > 1 else 0, pad=2)
