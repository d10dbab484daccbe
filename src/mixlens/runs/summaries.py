"""What is kept of a batch by default: for each target and layer where its mixture comes from.

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

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from mixlens.runs.mixtures import Mixtures

TOP = 10
_PLACES = 2**21 - 1  # positions go into the lower bits of a key

Summary = dict[str, np.ndarray | None]
"""By column: numbers [text, layer, target], or [text, layer, target, rank]; padding inside."""


def shares_of(mixtures: Mixtures) -> Iterator[Tensor]:
    """Group by group [text, target, source] in float64; zeros in padding and rows of zeros."""
    for scores in mixtures.values:
        sizes = torch.where(mixtures.real, scores.double().abs(), 0.0)
        totals = sizes.sum(-1, keepdim=True)
        yield sizes / torch.where(totals > 0, totals, 1.0)


def entropies_of(shares: Tensor) -> Tensor:
    """Along the last axis, in nats."""
    entropies: Tensor = torch.special.entr(shares).sum(-1)
    return entropies


class Summaries:
    """Collects the numbers of a batch, layer by layer."""

    def __init__(self, mixtures: Mixtures) -> None:
        self.mixtures = mixtures
        self._rows: dict[str, list[Tensor]] = {}

    def add(self, shares: Tensor, entropies: Tensor) -> None:
        """The next layer."""
        mixtures = self.mixtures
        empty = shares.sum(-1) == 0
        sources, tops = _largest(shares)
        columns = {
            "top_sources": sources.int(),
            "top_shares": torch.where(empty[..., None], math.nan, tops),
            "entropy": entropies,
            "special_share": (shares @ mixtures.special.double()[..., None])[..., 0],
        }
        if mixtures.same_tokens:
            own = shares.gather(-1, mixtures.target_places[..., None])
            columns["own_share"] = own[..., 0]
            columns["mean_distance"] = (shares * mixtures.distances).sum(-1)
        for key, values in columns.items():
            if values.is_floating_point():
                values = torch.where(empty, math.nan, values) if values.dim() == 2 else values
                values = values.float()
            self._rows.setdefault(key, []).append(values)

    def conclude(self) -> Summary:
        """On this side of the device."""
        columns: Summary = {"own_share": None, "mean_distance": None}
        for key, rows in self._rows.items():
            columns[key] = torch.stack(rows, 1).cpu().numpy()
        return columns


def _largest(shares: Tensor) -> tuple[Tensor, Tensor]:
    """Sources and shares of the largest, equal ones by position.

    The bits of a number that is not negative are ordered as the number is. With the position in
    the lower bits no two keys are equal, so that every device gives the same order.
    """
    places = torch.arange(shares.shape[-1], device=shares.device)
    bits = shares.float().view(torch.int32).long()
    keys = (bits << 21 | (_PLACES - places)).topk(min(TOP, len(places)), -1).values
    return _PLACES - (keys & _PLACES), (keys >> 21).int().view(torch.float32)
