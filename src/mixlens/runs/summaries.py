"""What is kept of maps by default: for each target and layer where its mixture comes from.

With s the scores of a target's row, its shares are p_j = |s_j| / sum_k |s_k|. Of each row are kept

* the ten largest shares and their sources, the largest first, equal ones by position;
* `entropy`: -sum_j p_j ln p_j, in nats;
* `own_share`: p of the target itself;
* `special_share`: the sum of p over special tokens;
* `mean_distance`: sum_j p_j |j - i| for the target at position i, in tokens.

Own share and distance are null if targets and sources are different tokens (cross-attention, an
explained output). A row of zeros has no shares: its numbers are NaN.

Texts whose maps have the same shape are summarised together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mixlens.maps import MixingMaps

TOP = 10

Summary = dict[str, np.ndarray | None]
"""By column: numbers [text, layer, target], or [text, layer, target, rank]."""


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


def special_tokens(maps: Sequence[MixingMaps]) -> np.ndarray:
    """[text, source]: which sources are special tokens."""
    count = len(maps[0].source_row)
    return np.array([one.source_row.special or (False,) * count for one in maps], bool)


def distances(maps: Sequence[MixingMaps]) -> np.ndarray:
    """[text, target, source]: how many tokens lie between, plus one."""
    targets = np.array([one.target_positions for one in maps])
    gaps: np.ndarray = np.abs(np.arange(len(maps[0].source_row)) - targets[..., None])
    return gaps


def summarise(maps: Sequence[MixingMaps], shares: np.ndarray) -> Summary:
    """Maps of one shape, with their shares [text, layer, target, source]."""
    order = np.argsort(-shares, axis=-1, kind="stable")[..., :TOP]
    special = special_tokens(maps)[:, None, None]
    own, distance = None, None
    if maps[0].facts.same_tokens:
        targets = np.array([one.target_positions for one in maps])[:, None, :, None]
        own = np.take_along_axis(shares, targets, -1)[..., 0].astype(np.float32)
        distance = (shares * distances(maps)[:, None]).sum(-1).astype(np.float32)
    return {
        "top_sources": order.astype(np.int32),
        "top_shares": np.take_along_axis(shares, order, -1).astype(np.float32),
        "entropy": entropies_of(shares).astype(np.float32),
        "own_share": own,
        "special_share": (shares * special).sum(-1).astype(np.float32),
        "mean_distance": distance,
    }
