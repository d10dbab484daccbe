"""Summarise a batch: the main sources of each target and layer.

With the scores s of a target, its normalised scores are p_j = |s_j| / sum_k |s_k|. A summary has

* the ten largest normalised scores and their sources, largest first, ties by position;
* `entropy`: -sum_j p_j ln p_j, in nats;
* `own_share`: p of the target itself;
* `special_share`: the sum of p over special tokens;
* `mean_distance`: sum_j p_j |j - i| for the target at position i, in tokens.

Own share and distance are null if targets and sources are different tokens (cross-attention, an
explained output). If all scores are zero, the numbers are NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mixlens.runs.mixtures import Mixtures

TOP = 10
_NUMBERS = {"cpu": 2**16}  # numbers processed together, so that they stay in the cache
_NUMBERS_ELSEWHERE = 2**24  # a GPU is slow on small pieces
_PLACES = 2**21 - 1  # positions occupy the lower bits of a key


@dataclass(frozen=True, kw_only=True, eq=False)
class Shares:
    """A part of a batch: some groups of some of its texts."""

    groups: slice
    texts: slice
    values: Float[
        Tensor, "group text target source"
    ]  # zeros in padding and for targets without scores
    empty: Bool[Tensor, "group text target"]  # targets without scores

    @cached_property
    def narrow(self) -> Float[Tensor, "group text target source"]:
        """Return the normalised scores in float32."""
        return self.values.float()

    @cached_property
    def entropies(self) -> Float[Tensor, "group text target"]:
        """Return the entropies in nats."""
        entropies: Tensor = torch.special.entr(self.values).sum(-1)
        return entropies


def shares_of(mixtures: Mixtures) -> Iterator[Shares]:
    """Yield normalised scores part by part, in float64."""
    groups, texts, *size = mixtures.values.shape
    numbers = _NUMBERS.get(mixtures.values.device.type, _NUMBERS_ELSEWHERE)
    several = max(1, numbers // math.prod(size))  # texts of any group
    step = max(1, several // texts)
    for group in range(0, groups, step):
        for text in range(0, texts, several):
            part = slice(group, group + step), slice(text, text + several)
            sizes = torch.where(mixtures.real[part[1]], mixtures.values[part], 0.0).abs_()
            totals = sizes.sum(-1, keepdim=True, dtype=torch.float64)
            shares = sizes / torch.where(totals > 0, totals, 1.0)
            yield Shares(groups=part[0], texts=part[1], values=shares, empty=totals[..., 0] == 0)


class Summaries:
    """Collects the numbers of a batch, part by part."""

    def __init__(self, mixtures: Mixtures) -> None:
        self.mixtures = mixtures
        self.columns: dict[str, Tensor] = {}  # [text, layer, target(, rank)], on the device

    def add(self, part: Shares) -> None:
        """Add a part of the batch."""
        mixtures, shares, texts, empty = self.mixtures, part.values, part.texts, part.empty
        sources, tops = _largest(part.narrow)
        rows = {
            "entropy": part.entropies,
            "special_share": (shares @ mixtures.special[texts].double()[..., None])[..., 0],
        }
        if mixtures.same_tokens:
            places = mixtures.target_places[texts][..., None].expand(*shares.shape[:3], 1)
            rows["own_share"] = shares.gather(-1, places)[..., 0]
            rows["mean_distance"] = (shares * mixtures.distances[texts]).sum(-1)
        columns = {key: torch.where(empty, math.nan, row).float() for key, row in rows.items()}
        columns["top_sources"] = sources.int()
        columns["top_shares"] = torch.where(empty[..., None], math.nan, tops)
        for key, values in columns.items():
            self._column(key, values)[texts, part.groups] = values.transpose(0, 1)

    def _column(self, key: str, values: Tensor) -> Tensor:
        if key not in self.columns:
            groups, texts = self.mixtures.values.shape[:2]
            self.columns[key] = values.new_empty(texts, groups, *values.shape[2:])
        return self.columns[key]


def _largest(shares: Tensor) -> tuple[Tensor, Tensor]:
    """Return sources and values of the largest normalised scores, ties by position.

    The bits of a non-negative float sort like the float. With the position in the lower bits no two
    keys are equal, so that every device gives the same order.
    """
    places = torch.arange(shares.shape[-1], device=shares.device)
    keys = torch.add(_PLACES - places, shares.view(torch.int32), alpha=_PLACES + 1)
    keys = keys.topk(min(TOP, len(places)), -1).values
    return _PLACES - (keys & _PLACES), (keys >> 21).int().view(torch.float32)
