"""What is kept of a map by default: for each target and layer where its mixture comes from.

With s the scores of a target's row, its shares are p_j = |s_j| / sum_k |s_k|. Of each row are kept

* the ten largest shares and their sources, the largest first, equal ones by position;
* `entropy`: -sum_j p_j ln p_j, in nats;
* `own_share`: p of the target itself;
* `special_share`: the sum of p over special tokens;
* `mean_distance`: sum_j p_j |j - i| for the target at position i, in tokens.

Own share and distance are null if targets and sources are different tokens (cross-attention, an
explained output). A row of zeros has no shares: its numbers are NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mixlens.maps import MixingMaps

TOP = 10


def shares_of(scores: np.ndarray) -> np.ndarray:
    """Sizes along the last axis, summing to one; NaN if all are zero."""
    sizes = np.abs(scores.astype(np.float64))
    totals = sizes.sum(-1, keepdims=True)
    shares: np.ndarray = np.divide(
        sizes, totals, out=np.full(sizes.shape, np.nan), where=totals > 0
    )
    return shares


def entropies_of(shares: np.ndarray) -> np.ndarray:
    """Along the last axis, in nats."""
    logs = np.log(shares, out=np.zeros(shares.shape), where=shares > 0)
    entropies: np.ndarray = -(shares * logs).sum(-1)
    return entropies


def summarise(maps: MixingMaps, shares: np.ndarray) -> list[dict[str, Any]]:
    """One dict for each layer, with a number (or a list) for each target."""
    count = shares.shape[-1]
    order = np.argsort(-shares, axis=-1, kind="stable")[..., : min(TOP, count)]
    entropy = entropies_of(shares)
    special = np.array(maps.source_row.special or (False,) * count, bool)
    on_special = shares[..., special].sum(-1)
    own, distance = _places(maps, shares)
    return [
        {
            "top_sources": order[layer].astype(np.int32),
            "top_shares": np.take_along_axis(shares[layer], order[layer], -1).astype(np.float32),
            "entropy": entropy[layer].astype(np.float32),
            "special_share": on_special[layer].astype(np.float32),
            "own_share": None if own is None else own[layer].astype(np.float32),
            "mean_distance": None if distance is None else distance[layer].astype(np.float32),
        }
        for layer in range(len(shares))
    ]


def _places(
    maps: MixingMaps, shares: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | tuple[None, None]:
    if not maps.facts.same_tokens:
        return None, None
    targets = np.array(maps.target_positions)
    own = np.take_along_axis(shares, targets[None, :, None], -1)[..., 0]
    gaps = np.abs(np.arange(shares.shape[-1])[None] - targets[:, None])
    return own, (shares * gaps).sum(-1)
