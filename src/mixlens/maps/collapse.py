"""Detect rollouts that have collapsed onto one source.

In a causal model the first token uses no other token, so it is an absorbing state of the product
R_l = M_l R_(l-1): with every layer more of each target's score moves there. If little else is left,
the rollout does not distinguish targets.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mixlens.maps.target_row import shares

if TYPE_CHECKING:
    from mixlens.maps.mixing_maps import MixingMaps

MEAN_SHARE = 0.75  # of all other targets, on average
LEAST_SHARE = 0.5  # of each of them
FEWEST = 3  # sources; with two, one always has half


class Collapse(NamedTuple):
    """The source that dominates, and its mean normalised score for the other targets."""

    source: int
    token: str
    share: float

    def __str__(self) -> str:
        return (
            f"The rollout has collapsed onto the token {self.token!r} (position "
            f"{self.source}), whose mean share of the other targets is {self.share:.0%}. It "
            "hardly distinguishes targets. Use the mean of the layers instead."
        )


def collapse_of(maps: MixingMaps, place: int = -1) -> Collapse | None:
    """Return the source onto which a rollout of tokens has collapsed, or None.

    `place` is the index of the layer in the maps.
    """
    is_rollout = (maps.facts.joined_by or "").startswith("rollout")
    of_tokens = maps.facts.same_tokens and len(maps.source_row) == len(maps.target_row)
    if not is_rollout or not of_tokens or len(maps.source_row) < FEWEST:
        return None
    held = np.array(maps.target_positions)
    rows = np.abs(shares(maps.scores[place]))
    source = int(rows.sum(0).argmax())
    taken = rows[held != source, source]
    if not len(taken) or taken.mean() < MEAN_SHARE or taken.min() < LEAST_SHARE:
        return None
    return Collapse(source, maps.source_tokens[source], float(taken.mean()))


def warn_of_collapse(maps: MixingMaps, stacklevel: int = 3) -> MixingMaps:
    """Return the maps, after a `UserWarning` if they are a rollout that has collapsed."""
    collapse = collapse_of(maps)
    if collapse is not None:
        warnings.warn(str(collapse), stacklevel=stacklevel)
    return maps
