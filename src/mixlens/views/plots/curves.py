"""Curves over the layers: the top sources of one target, or the mean over all targets for four
kinds of sources.

Without a target, the lines show the normalised scores of four kinds of sources, averaged over
targets: the target itself, its two neighbours, special tokens and all other tokens. The bands are
95 % bootstrap intervals of these means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mixlens.errors import InvalidInput
from mixlens.maps.one_row import shares
from mixlens.views.figures import lines
from mixlens.views.labels import shorten_label
from mixlens.views.plots.chosen import row_of, source_labels, target_name, target_of, whole_layers
from mixlens.views.style import HEIGHT, WIDTH

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mixlens.maps.mixing_maps import MixingMaps

_DRAWS = 1000


def draw(
    maps: MixingMaps,
    *,
    target: int | str | None = None,
    head: int | None = None,
    top: int = 6,
    width: float = WIDTH,
) -> tuple[Figure, str]:
    """Draw the `top` largest sources of a target, one curve for each.

    Without a target, draw four curves with the means over all targets. `width` is in inches.
    """
    maps, of_head = whole_layers(maps, head)
    if top < 1:
        raise InvalidInput(f"top={top} is out of range. Pass at least 1.")
    if target is None and len(maps.target_positions) > 1:
        figure = _all_targets(maps)
        detail = f"mean of {len(maps.target_positions)} targets with its 95 % interval"
    else:
        position = target_of(maps, target)
        figure = _one_target(maps, position, top)
        detail = f"{target_name(maps, position)}, its {top} largest sources"
    figure.set_size_inches(width, HEIGHT * max(width / WIDTH, 0.75))
    return figure, ", ".join(filter(None, [detail, of_head]))


def _one_target(maps: MixingMaps, position: int, top: int) -> Figure:
    scores, labels = row_of(maps, position), source_labels(maps)
    largest = np.argsort(-np.abs(scores).max(0), kind="stable")[:top]
    series = {f"{shorten_label(labels[i])} ({i})": scores[:, i] for i in largest}
    return lines(series, x=list(maps.layers), y_label="score")


def _all_targets(maps: MixingMaps) -> Figure:
    if maps.source_row != maps.target_row:
        raise InvalidInput("Curves of all targets need self-attention. Pass a target.")
    wide = np.abs(shares(maps.scores))
    special = np.array(maps.source_row.special or [False] * len(maps.source_row))
    away = np.abs(np.array(maps.target_positions)[:, None] - np.arange(wide.shape[-1]))
    kinds = np.where(away == 0, 0, np.where(special, 2, np.where(away == 1, 1, 3)))
    means, bands = {}, {}
    resamples = np.random.default_rng(0).integers(0, wide.shape[1], (_DRAWS, wide.shape[1]))
    for number, name in enumerate(("itself", "its neighbours", "special tokens", "all others")):
        parts = np.where(kinds == number, wide, 0).sum(-1)  # layer, target
        means[name] = parts.mean(-1)
        ends = np.quantile(parts[:, resamples].mean(-1), (0.025, 0.975), axis=-1)
        bands[name] = (ends[0], ends[1])
    return lines(means, x=list(maps.layers), bands=bands, y_label="normalised score")
