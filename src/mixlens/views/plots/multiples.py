"""Draw many maps side by side, on one scale and with labels only at the edges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.errors import InvalidInput
from mixlens.views.canvas import finish, panels
from mixlens.views.matrix import draw_matrix, name_axis, scale_bar, side
from mixlens.views.plots.chosen import source_labels, target_labels
from mixlens.views.style import SMALL, SMALLEST, WIDEST, shades

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mixlens.maps.mixing_maps import MixingMaps

SCALES = ("all", "each")
_EDGE = 0.35  # inches around a panel
_SIDES = 1.3  # inches for labels and the scale, next to all panels
_READABLE = 0.9  # inches; a narrower panel shows little


def small_multiples(
    maps: MixingMaps,
    scores: np.ndarray,
    titles: Sequence[str],
    *,
    rows: Sequence[str] | None = None,
    columns: int | None = None,
    width: float | None = None,
    scale: str = "all",
) -> Figure:
    """Return a figure with one panel for each map of `scores` [panel, target, source].

    `titles` are the titles of the panels. With `rows`, the panels form a table: `titles` are then
    its column headers, and `rows` its row headers. `width` is the width of the figure. With the
    scale "each", every panel is scaled by its own largest score, which its title states.
    """
    if scale not in SCALES:
        raise InvalidInput(f"Unknown scale {scale!r}. Choose one of: {', '.join(SCALES)}.")
    targets, sources = target_labels(maps), source_labels(maps)
    count = len(scores)
    columns = _columns(count, titles, rows, columns, width)
    cell = 0.13 if max(len(targets), len(sources)) < 40 else 0.06
    most = WIDEST / columns + 1.2
    inside, height = (side(len(labels), cell, most) for labels in (sources, targets))
    if width is not None:
        inside = max((width - _SIDES) / columns - 0.1, 0.3)
        height = min(height, max(inside * len(targets) / len(sources), 0.8))
    figure, places = panels(
        count,
        columns=columns,
        width=inside + _EDGE if width is None else width / columns,
        height=height + _EDGE,
        sharex=True,
        sharey=True,
    )
    signed = maps.facts.signed
    largest = np.abs(np.nan_to_num(scores)).max((1, 2))
    largest = largest if scale == "each" else np.full_like(largest, largest.max())
    for number, (axes, values) in enumerate(zip(places, scores, strict=True)):
        most_here = float(largest[number]) or 1.0
        image = draw_matrix(axes, values, (-most_here if signed else 0.0, most_here), signed)
        lowest, leftmost = number + columns >= count, number % columns == 0
        top = rows is None or number < columns
        title = titles[number % len(titles)] if top else ""
        up_to = f"≤ {largest[number]:.2g}" if scale == "each" else ""
        finish(axes, f"{title} {up_to}".strip())
        letters = max(1, len(axes.get_title("left")))
        axes.set_title(
            axes.get_title("left"),
            loc="left",
            fontsize=float(np.clip(inside * 72 / (0.6 * letters), SMALLEST, SMALL)),
        )
        y = "target token" if rows is None else rows[number // columns]
        x = "source token" if rows is None and lowest else ""
        name_axis(axes, "x", sources, x, inside)
        name_axis(axes, "y", targets, y if leftmost else "", height)
        axes.tick_params(labelbottom=lowest, labelleft=leftmost, bottom=lowest, left=leftmost)
    if scale == "each":
        image = _shares_scale(signed)
    scale_bar(figure, image, places, "score" if scale == "all" else "share of the panel's largest")
    return figure


def _columns(
    count: int,
    titles: Sequence[str],
    rows: Sequence[str] | None,
    columns: int | None,
    width: float | None,
) -> int:
    if rows:
        return len(titles)
    if columns is None:
        fits = count if width is None else max(1, int((width - _SIDES) / _READABLE))
        return min(count, fits, math.ceil(math.sqrt(count * 1.4)))
    if isinstance(columns, bool) or not hasattr(columns, "__index__") or columns < 1:
        raise InvalidInput(f"columns={columns!r} is out of range. Pass an integer of at least 1.")
    return min(count, int(columns))


def _shares_scale(signed: bool) -> Any:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    return ScalarMappable(Normalize(-1.0 if signed else 0.0, 1.0), shades(signed))
