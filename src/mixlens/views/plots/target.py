"""Sources of one target, with sources as rows and layers as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mixlens.errors import InvalidInput
from mixlens.views.matrix import heat_map
from mixlens.views.plots.chosen import row_of, source_labels, target_name, target_of, whole_layers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mixlens.maps.mixing_maps import MixingMaps


def draw(
    maps: MixingMaps,
    *,
    target: int | str | None = None,
    head: int | None = None,
    most: int = 40,
    width: float | None = None,
) -> tuple[Figure, str]:
    """Draw the scores of a target in every layer.

    The default target is the mask token, or else the last token that is not special. For a long
    text, the `most` largest sources are drawn in reading order. `width` is in inches.
    """
    if most < 1:
        raise InvalidInput(f"most={most} is out of range. Pass at least 1.")
    maps, of_head = whole_layers(maps, head)
    position = target_of(maps, target)
    scores, sources = row_of(maps, position), source_labels(maps)
    source_places = np.sort(np.argsort(-np.abs(scores).max(0), kind="stable")[:most])
    left_out = len(sources) - len(source_places)
    figure = heat_map(
        scores.T[source_places],
        [f"{sources[i]} {i}" for i in source_places] if left_out else sources,
        [str(layer) for layer in maps.layers],
        x_label="layer",
        y_label="source token",
        signed=maps.facts.signed,
        colour_bar="score",
        width=width,
    )
    note = f"the {len(source_places)} largest of {len(sources)} sources" if left_out else ""
    return figure, ", ".join(filter(None, [target_name(maps, position), of_head, note]))
