"""Small multiples: the map of every layer on one scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixlens.views.plots.chosen import whole_layers
from mixlens.views.plots.multiples import small_multiples

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mixlens.maps.mixing_maps import MixingMaps


def draw(
    maps: MixingMaps,
    *,
    head: int | None = None,
    columns: int | None = None,
    width: float | None = None,
    scale: str = "all",
) -> tuple[Figure, str]:
    """Draw every layer, in rows of `columns` panels.

    `width` is the width of the figure in inches. With `scale="each"`, every layer is scaled by its
    own largest score.
    """
    maps, of_head = whole_layers(maps, head)
    titles = [f"layer {layer}" for layer in maps.layers]
    return small_multiples(
        maps, maps.scores, titles, columns=columns, width=width, scale=scale
    ), of_head
