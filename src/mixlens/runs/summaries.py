"""Summarise a batch: the main sources of each target and layer.

If s are the scores of a target, its normalised scores are p_j = |s_j| / sum_k |s_k|. A summary has
these columns:

* the ten largest normalised scores and their sources, largest first (ties are ordered by position);
* `entropy`: -sum_j p_j ln p_j, in nats;
* `own_share`: the normalised score of the target itself;
* `special_share`: the sum of normalised scores over special tokens;
* `mean_distance`: sum_j p_j |j - i| for the target at position i, in tokens.

`own_share` and `mean_distance` are null if targets and sources are different tokens
(cross-attention, or an explained output). If all scores are zero, all values are NaN.
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
    """Normalised scores of a part of a batch: some texts, and some layers or heads."""

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
    """Yield the normalised scores of a batch in parts, in float64."""
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
    """The columns of a summary, collected from the parts of a batch."""

    def __init__(self, mixtures: Mixtures) -> None:
        self.mixtures = mixtures
        self.columns: dict[str, Tensor] = {}  # [text, layer, target(, rank)], on the device

    def add(self, part: Shares) -> None:
        """Add a part of the batch."""
        mixtures, shares, texts, empty = self.mixtures, part.values, part.texts, part.empty
        sources, tops = _largest(part.narrow)
        by_target = {
            "entropy": part.entropies,
            "special_share": (shares @ mixtures.special[texts].double()[..., None])[..., 0],
        }
        if mixtures.same_tokens:
            places = mixtures.target_places[texts][..., None].expand(*shares.shape[:3], 1)
            by_target["own_share"] = shares.gather(-1, places)[..., 0]
            by_target["mean_distance"] = (shares * mixtures.distances[texts]).sum(-1)
        columns = {
            key: torch.where(empty, math.nan, numbers).float() for key, numbers in by_target.items()
        }
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
    """Return the sources and values of the largest normalised scores. Ties are ordered by position.

    The bits of a non-negative float sort in the same order as the float. With the position in the
    lower bits, no two keys are equal, so every device gives the same order.
    """
    places = torch.arange(shares.shape[-1], device=shares.device)
    keys = torch.add(_PLACES - places, shares.view(torch.int32), alpha=_PLACES + 1)
    keys = keys.topk(min(TOP, len(places)), -1).values
    return _PLACES - (keys & _PLACES), (keys >> 21).int().view(torch.float32)
