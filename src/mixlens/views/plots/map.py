"""One map of a layer or of all layers, with targets as rows and sources as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixlens.views.matrix import heat_map
from mixlens.views.plots.chosen import read_layers, source_labels, target_labels, whole_layers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mixlens.maps.mixing_maps import MixingMaps


def draw(
    maps: MixingMaps,
    *,
    layer: int | None = None,
    head: int | None = None,
    width: float | None = None,
) -> tuple[Figure, str]:
    """Draw one layer. By default, the layers are aggregated. `width` is in inches."""
    maps, of_head = whole_layers(maps, head)
    reading = read_layers(maps, layer)
    figure = heat_map(
        reading.scores,
        target_labels(maps),
        source_labels(maps),
        x_label="source token",
        y_label="target token",
        signed=maps.facts.signed,
        colour_bar=reading.unit,
        width=width,
    )
    return figure, ", ".join(filter(None, [reading.name, of_head]))
