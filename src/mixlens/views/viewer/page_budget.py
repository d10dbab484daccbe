"""Decide which parts of the maps fit into a page of a given size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.views.viewer import packing

if TYPE_CHECKING:
    from mixlens.maps.mixing_maps import MixingMaps


class Room:
    """Decide which scores fit in a page.

    If a page is too large, it loses the rollouts to all but the last layer, then the heads, then
    all but the largest entries of each layer. Heads that the user requests in a live page are
    reduced to their largest entries before they are dropped.
    """

    def __init__(
        self, pairs: Sequence[tuple[MixingMaps | None, MixingMaps | None]], room: int
    ) -> None:
        layers, heads, rollouts, weights, head_weights = 0, 0, 0, 0, 0
        for whole, per_head in pairs:
            shape = _layer_shape(whole, per_head)
            layers += packing.written_size(shape)
            rollouts += packing.written_size((shape[0] - 2, *shape[1:]))
            weights += shape[0] * (shape[1] + shape[2])
            if per_head is not None:
                heads += packing.written_size(per_head.scores.shape)
                head_weights += _rows_and_columns(per_head.scores)
        self.megabytes: int = room // 1_000_000
        self.rollouts: bool = layers + heads + rollouts <= room
        self.heads: bool = layers + heads <= room
        self.whole: bool = layers <= room
        self._each = packing.MOST_BYTES / max(weights, 1)
        left = room - min(layers, packing.MOST_BYTES)
        self._each_of_heads = left / max(head_weights, 1) if room > packing.ALL_BYTES else 0

    def packed(self, scores: np.ndarray) -> dict[str, Any]:
        """Return maps of layers, complete or only their largest entries."""
        if self.whole:
            return packing.whole(scores)
        layers, targets, sources = scores.shape
        return packing.largest(scores, int(self._each * layers * (targets + sources)))

    def packed_heads(self, scores: np.ndarray) -> dict[str, Any] | None:
        """Return heads, or None if they do not fit."""
        if self.heads:
            return packing.whole(scores)
        maps = scores.reshape(-1, *scores.shape[-2:])
        room = int(self._each_of_heads * _rows_and_columns(scores))
        return packing.largest(maps, room) if room else None


def _rows_and_columns(scores: np.ndarray) -> int:
    """Return the numbers of rows and columns of all maps [..., target, source]."""
    *maps, targets, sources = scores.shape
    return int(np.prod(maps) * (targets + sources))


def _layer_shape(whole: MixingMaps | None, heads: MixingMaps | None) -> tuple[int, int, int]:
    shown = whole if whole is not None else heads
    assert shown is not None
    layers, targets, sources = shown.scores.shape[0], *shown.scores.shape[-2:]
    return layers + 1, targets, sources  # one more for the aggregated layers
