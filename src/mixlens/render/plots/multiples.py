"""Many maps next to each other, on one scale and with labels at the edges only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mixlens.render.canvas import finish, panels
from mixlens.render.figures.matrix import name_axis, scale_bar, shaded, side
from mixlens.render.plots.chosen import source_labels, target_labels
from mixlens.render.style import SMALL, WIDEST

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mixlens.maps import MixingMaps

_EDGE = 0.35  # inches around a panel


def small_multiples(
    maps: MixingMaps,
    scores: np.ndarray,
    titles: Sequence[str],
    *,
    rows: Sequence[str] | None = None,
) -> Figure:
    """[panel, target, source], one title for each panel.

    With `rows`, the panels are a table: `titles` are the heads of its columns, `rows` of its rows.
    """
    targets, sources = target_labels(maps), source_labels(maps)
    count = len(scores)
    columns = len(titles) if rows else min(count, math.ceil(math.sqrt(count * 1.4)))
    cell = 0.13 if max(len(targets), len(sources)) < 40 else 0.06
    most = WIDEST / columns + 1.2
    width, height = (side(len(labels), cell, most) + _EDGE for labels in (sources, targets))
    figure, places = panels(
        count, columns=columns, width=width, height=height, sharex=True, sharey=True
    )
    signed = maps.facts.signed
    largest = float(np.nanmax(np.abs(scores))) or 1.0
    for number, (axes, values) in enumerate(zip(places, scores, strict=True)):
        image = shaded(axes, values, (-largest if signed else 0.0, largest), signed)
        lowest, leftmost = number + columns >= count, number % columns == 0
        top = rows is None or number < columns
        finish(axes, titles[number % len(titles)] if top else "")
        axes.title.set_fontsize(SMALL)
        y = "target token" if rows is None else rows[number // columns]
        x = "source token" if rows is None and lowest else ""
        name_axis(axes, "x", sources, x, width - _EDGE)
        name_axis(axes, "y", targets, y if leftmost else "", height - _EDGE)
        axes.tick_params(labelbottom=lowest, labelleft=leftmost, bottom=lowest, left=leftmost)
    scale_bar(figure, image, places, "score")
    return figure
