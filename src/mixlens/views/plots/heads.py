"""Small multiples: the map of every head on one scale, with layers as rows and heads as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixlens.errors import InvalidInput
from mixlens.views.plots.chosen import read_layers
from mixlens.views.plots.multiples import small_multiples

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mixlens.maps.mixing_maps import MixingMaps


def draw(
    maps: MixingMaps,
    *,
    layer: int | None = None,
    columns: int | None = None,
    width: float | None = None,
    scale: str = "all",
) -> tuple[Figure, str]:
    """Draw all heads of every layer, or of one layer in rows of `columns` panels.

    `width` is the width of the figure in inches. With `scale="each"`, every head is scaled by its
    own largest score.
    """
    if not maps.per_head:
        raise InvalidInput(
            "These maps have no heads. Measure with per_head=True to get individual heads."
        )
    titles = [f"head {number}" for number in range(maps.scores.shape[1])]
    if layer is not None or len(maps.layers) == 1:
        reading = read_layers(maps, layer)
        figure = small_multiples(
            maps, reading.scores, titles, columns=columns, width=width, scale=scale
        )
        return figure, reading.name
    if columns is not None:
        raise InvalidInput(
            "columns= needs a single layer, because in a figure of several layers, each head has "
            "its own column. Pass layer=."
        )
    panels = maps.scores.reshape(-1, *maps.scores.shape[2:])
    rows = [f"layer {number}" for number in maps.layers]
    figure = small_multiples(maps, panels, titles, rows=rows, width=width, scale=scale)
    return figure, "targets down, sources across"
