"""Encode normalised scores as text, in float16 and base64.

The scores of a target are divided by the sum of their absolute values, so that float16 can
represent them. The sums are stored in float32. If a map is too large, only the `kept` largest
entries of each row and each column are stored. The sum of the missing entries of a row is one minus
the sum of the stored ones. `Room` decides which parts of the maps fit into a page of a given size.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.maps.one_row import shares

if TYPE_CHECKING:
    from mixlens.maps.mixing_maps import MixingMaps

ALL_BYTES = 5_000_000
"""Largest text size up to which everything is stored, including heads."""

LIVE_BYTES = 64_000_000
"""The same for heads that are requested from a server or a kernel."""

MOST_BYTES = 8_000_000
"""Largest text size of the maps of a page."""

_FEWEST = 8  # entries of each row and each column


def encode_array(array: np.ndarray) -> dict[str, Any]:
    """Encode an array as its dtype, its shape, and its little-endian bytes in base64."""
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return {
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "data": base64.b64encode(plain.tobytes()).decode("ascii"),
    }


def written_size(shape: Sequence[int]) -> int:
    """Return the number of base64 characters of a float16 array of this shape."""
    return int(np.prod(shape, dtype=np.int64)) * 2 * 4 // 3


def whole(scores: np.ndarray) -> dict[str, Any]:
    """Encode all normalised scores of maps [..., target, source]."""
    return {"kind": "dense", "shares": encode_array(shares(scores).astype(np.float16))}


def totals(scores: np.ndarray) -> dict[str, Any]:
    """Encode the sums of absolute scores.

    Multiply a normalised score by its sum to get the original score.
    """
    return encode_array(np.abs(scores.astype(np.float64)).sum(-1).astype(np.float32))


def largest(scores: np.ndarray, room: int) -> dict[str, Any]:
    """Encode the largest entries of each row and column of maps [layer, target, source].

    The result has about `room` characters.
    """
    layers, targets, sources = scores.shape
    itemsize = 2 + (2 if sources <= 65_535 else 4)
    count = int(room * 3 / 4 / itemsize / (layers * (targets + sources)))
    count = max(_FEWEST, count)
    counts, indices, values = [], [], []
    for layer in scores:
        portion = shares(layer)
        mask = _largest_mask(np.abs(portion, dtype=np.float32), count)
        rows, columns = np.nonzero(mask)
        counts.append(np.bincount(rows, minlength=targets))
        indices.append(columns)
        values.append(portion[rows, columns])
    starts = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    return {
        "kind": "largest",
        "kept": count,
        "shape": [layers, targets, sources],
        "starts": encode_array(starts.astype(np.uint32)),
        "indices": encode_array(
            np.concatenate(indices).astype(np.uint16 if sources <= 65_535 else np.uint32)
        ),
        "values": encode_array(np.concatenate(values).astype(np.float16)),
    }


def largest_of_rows(scores: np.ndarray, room: int) -> dict[str, Any]:
    """Encode the largest entries of each row of one map [target, source].

    The result has about `room` characters.
    """
    targets, sources = scores.shape
    dtype = np.uint16 if sources <= 65_535 else np.uint32
    count = max(_FEWEST, int(room * 3 / 4 / (2 + dtype().itemsize) / targets))
    count = min(count, sources)
    portion = shares(scores)
    columns = np.sort(np.argpartition(-np.abs(portion), count - 1, 1)[:, :count], 1)
    return {
        "kind": "largest",
        "kept": count,
        "shape": [1, targets, sources],
        "starts": encode_array((np.arange(targets + 1) * count).astype(np.uint32)),
        "indices": encode_array(columns.reshape(-1).astype(dtype)),
        "values": encode_array(
            np.take_along_axis(portion, columns, 1).reshape(-1).astype(np.float16)
        ),
    }


def _largest_mask(sizes: np.ndarray, count: int) -> np.ndarray:
    mask = np.zeros(sizes.shape, bool)
    for values, part in ((sizes, mask), (np.ascontiguousarray(sizes.T), mask.T)):
        if count >= values.shape[1]:
            return sizes > 0
        order = np.argpartition(-values, count, 1)[:, :count]
        np.put_along_axis(part, order, True, 1)
    return mask & (sizes > 0)


class Room:
    """Decide which scores fit in a page.

    If a page is too large, the rollouts to all layers except the last are dropped first, then the
    per-head maps, then all but the largest entries of the per-layer maps. In a live page, the
    largest entries of the per-head maps are kept if the user requests heads and there is room for
    them.
    """

    def __init__(
        self, pairs: Sequence[tuple[MixingMaps | None, MixingMaps | None]], room: int
    ) -> None:
        layers, heads, rollouts, weights, head_weights = 0, 0, 0, 0, 0
        for whole, per_head in pairs:
            shape = _layer_shape(whole, per_head)
            layers += written_size(shape)
            rollouts += written_size((shape[0] - 2, *shape[1:]))
            weights += shape[0] * (shape[1] + shape[2])
            if per_head is not None:
                heads += written_size(per_head.scores.shape)
                head_weights += _rows_and_columns(per_head.scores)
        self.megabytes: int = room // 1_000_000
        self.rollouts: bool = layers + heads + rollouts <= room
        self.heads: bool = layers + heads <= room
        self.whole: bool = layers <= room
        self._each = MOST_BYTES / max(weights, 1)
        remaining = room - min(layers, MOST_BYTES)
        self._each_of_heads = remaining / max(head_weights, 1) if room > ALL_BYTES else 0

    def pack(self, scores: np.ndarray) -> dict[str, Any]:
        """Encode per-layer maps. If the full maps do not fit, store only their largest entries."""
        if self.whole:
            return whole(scores)
        layers, targets, sources = scores.shape
        return largest(scores, int(self._each * layers * (targets + sources)))

    def packed_heads(self, scores: np.ndarray) -> dict[str, Any] | None:
        """Encode per-head maps. If the full maps do not fit, store only their largest entries.

        Return None if the page has no room for these entries either.
        """
        if self.heads:
            return whole(scores)
        maps = scores.reshape(-1, *scores.shape[-2:])
        room = int(self._each_of_heads * _rows_and_columns(scores))
        return largest(maps, room) if room else None


def _rows_and_columns(scores: np.ndarray) -> int:
    """Return the total number of rows and columns of all maps [..., target, source]."""
    *maps, targets, sources = scores.shape
    return int(np.prod(maps) * (targets + sources))


def _layer_shape(whole: MixingMaps | None, heads: MixingMaps | None) -> tuple[int, int, int]:
    maps = whole if whole is not None else heads
    assert maps is not None
    layers, targets, sources = maps.scores.shape[0], *maps.scores.shape[-2:]
    return layers + 1, targets, sources  # one more for the aggregated layers
