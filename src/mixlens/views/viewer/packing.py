"""Encode scores as text: normalised, in float16 and base64, complete or only the largest.

The scores of a target are divided by the sum of their absolute values, so that float16 can hold
them; the sums are stored in float32. If a map is too large, only the `kept` largest entries of each
row and each column are stored. The missing part of a row is one minus the sum of its entries.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np

from mixlens.maps.one_row import shares

ALL_BYTES = 5_000_000
"""Largest text size up to which everything is stored, including heads."""

LIVE_BYTES = 64_000_000
"""The same for heads that are requested from a server or a kernel."""

MOST_BYTES = 8_000_000
"""Largest text size of the maps of a page."""

_FEWEST = 8  # entries of each row and each column


def written(array: np.ndarray) -> dict[str, Any]:
    """Return an array as dtype, shape and base64 of its little-endian bytes."""
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return {
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "data": base64.b64encode(plain.tobytes()).decode("ascii"),
    }


def written_size(shape: Sequence[int], itemsize: int = 2) -> int:
    """Return the number of base64 characters of an array."""
    return int(np.prod(shape, dtype=np.int64)) * itemsize * 4 // 3


def whole(scores: np.ndarray) -> dict[str, Any]:
    """Return all normalised scores of maps [..., target, source]."""
    return {"kind": "dense", "shares": written(shares(scores).astype(np.float16))}


def totals(scores: np.ndarray) -> dict[str, Any]:
    """Return the sums of absolute scores. A normalised score times its sum is the score."""
    return written(np.abs(scores.astype(np.float64)).sum(-1).astype(np.float32))


def largest(scores: np.ndarray, room: int) -> dict[str, Any]:
    """Return the largest entries of each row and column of maps [layer, target, source], in about
    `room` characters.
    """
    layers, targets, sources = scores.shape
    itemsize = 2 + (2 if sources <= 65_535 else 4)
    kept = int(room * 3 / 4 / itemsize / (layers * (targets + sources)))
    kept = max(_FEWEST, kept)
    counts, indices, values = [], [], []
    for layer in scores:
        portion = shares(layer)
        chosen = _largest_mask(np.abs(portion, dtype=np.float32), kept)
        rows, columns = np.nonzero(chosen)
        counts.append(np.bincount(rows, minlength=targets))
        indices.append(columns)
        values.append(portion[rows, columns])
    starts = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    return {
        "kind": "largest",
        "kept": kept,
        "shape": [layers, targets, sources],
        "starts": written(starts.astype(np.uint32)),
        "indices": written(
            np.concatenate(indices).astype(np.uint16 if sources <= 65_535 else np.uint32)
        ),
        "values": written(np.concatenate(values).astype(np.float16)),
    }


def largest_of_rows(scores: np.ndarray, room: int) -> dict[str, Any]:
    """The largest entries of each row of one map [target, source], in about `room` characters."""
    targets, sources = scores.shape
    dtype = np.uint16 if sources <= 65_535 else np.uint32
    kept = max(_FEWEST, int(room * 3 / 4 / (2 + dtype().itemsize) / targets))
    kept = min(kept, sources)
    portion = shares(scores)
    columns = np.sort(np.argpartition(-np.abs(portion), kept - 1, 1)[:, :kept], 1)
    return {
        "kind": "largest",
        "kept": kept,
        "shape": [1, targets, sources],
        "starts": written((np.arange(targets + 1) * kept).astype(np.uint32)),
        "indices": written(columns.reshape(-1).astype(dtype)),
        "values": written(np.take_along_axis(portion, columns, 1).reshape(-1).astype(np.float16)),
    }


def _largest_mask(sizes: np.ndarray, kept: int) -> np.ndarray:
    mask = np.zeros(sizes.shape, bool)
    for values, chosen in ((sizes, mask), (np.ascontiguousarray(sizes.T), mask.T)):
        if kept >= values.shape[1]:
            return sizes > 0
        order = np.argpartition(-values, kept, 1)[:, :kept]
        np.put_along_axis(chosen, order, True, 1)
    return mask & (sizes > 0)
