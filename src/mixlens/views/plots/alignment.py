"""Alignment grid: one square for each target-source pair, with an area proportional to the
normalised score. Gold links are outlined.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.maps.one_row import shares
from mixlens.views.canvas import finish, panels
from mixlens.views.matrix import name_axis, side
from mixlens.views.plots.chosen import read_layers, source_labels, target_labels, whole_layers
from mixlens.views.style import LIGHT, TARGET

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mixlens.maps.mixing_maps import MixingMaps

_SMALLEST = 0.005  # smaller normalised scores are not drawn


def draw(
    maps: MixingMaps,
    *,
    layer: int | None = None,
    head: int | None = None,
    gold: Collection[tuple[int, int]] = (),
    width: float | None = None,
) -> tuple[Figure, str]:
    """Draw a grid with one row per target and one column per source.

    `gold` holds the gold links as pairs (target, source) of positions. `width` is in inches.
    """
    maps, of_head = whole_layers(maps, head)
    reading = read_layers(maps, layer)
    values = shares(reading.scores)
    rows, columns = target_labels(maps), source_labels(maps)
    across = side(len(columns), 0.24) if width is None else width - 1.3
    height = side(len(rows), 0.24)
    figure, (axes,) = panels(1, width=across + 1.3, height=height + 1.6)
    axes.add_collection(_squares(values))
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.spines[:].set_visible(False)
    _rules(axes, len(rows), len(columns))
    for target, source in gold:
        if target in maps.target_positions:
            _outline(axes, maps.target_positions.index(target), source)
    finish(axes)
    name_axis(axes, "x", columns, "source token", across)
    name_axis(axes, "y", rows, "target token", height)
    axes.tick_params(length=0)
    legend = "area: normalised score" + (", outlined: gold links" if gold else "")
    return figure, ", ".join(filter(None, [reading.name, of_head, legend]))


def _squares(values: np.ndarray) -> Any:
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    patches, colours = [], []
    for row, column in np.argwhere(np.abs(values) >= _SMALLEST):
        half = 0.46 * float(np.sqrt(min(1.0, abs(values[row, column]))))
        patches.append(Rectangle((column - half, row - half), 2 * half, 2 * half))
        colours.append(LIGHT["mark" if values[row, column] > 0 else "wrong"])
    return PatchCollection(patches, facecolors=colours, linewidths=0, zorder=2)


def _rules(axes: Any, rows: int, columns: int) -> None:
    """Draw thin lines between the cells, unless the cells are too small."""
    if max(rows, columns) <= 60:
        colour = LIGHT["line"]
        axes.hlines(np.arange(rows + 1) - 0.5, -0.5, columns - 0.5, colour, linewidth=0.4)
        axes.vlines(np.arange(columns + 1) - 0.5, -0.5, rows - 0.5, colour, linewidth=0.4)


def _outline(axes: Any, row: int, column: int) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(
        Rectangle(
            (column - 0.46, row - 0.46),
            0.92,
            0.92,
            fill=False,
            edgecolor=TARGET,
            linewidth=1.4,
            zorder=3,
        )
    )
