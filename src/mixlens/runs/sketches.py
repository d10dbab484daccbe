"""Estimate quantiles from counts in bins that grow with the value.

A bin is a sixteenth of an octave, so the relative error of a quantile is 5 %. Two sketches are
merged by adding their counts, in any order. The idea is that of DDSketch (Masson et al. 2019,
https://arxiv.org/abs/1908.10693), with bins taken from the bits of a float.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

OCTAVES = 24  # octaves below the largest power of two; smaller values count as zero
PARTS = 16  # bins per octave
BINS = 1 + OCTAVES * PARTS
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_SHIFT = 23 - 4  # shift of a float32's bits: the exponent and four bits of the mantissa remain


def sketch(
    values: Float[Tensor, "group text number"], largest_power: int
) -> Int[Tensor, "group bin"]:
    """Return counts by bin of numbers from zero to 2**largest_power."""
    below = (127 + largest_power - OCTAVES) * PARTS - 1
    bins = (values.float().view(torch.int32) >> _SHIFT).sub_(below)
    return totals(bins.clamp_(0, BINS - 1), BINS)


def totals(
    places: Int[Tensor, "group text number"], count: int, weights: Tensor | None = None
) -> Shaped[Tensor, "group place"]:
    """Return the count of each index in a group, or the sum of its weights."""
    if (
        places.device.type != "cpu"
    ):  # `bincount` reads the largest number, for which a GPU would wait
        return totals_by_text(places, count, weights)
    groups = torch.arange(len(places), dtype=places.dtype)[:, None, None]
    flat = (places + groups * count).flatten()
    given = None if weights is None else weights.flatten()
    return flat.bincount(given, minlength=len(places) * count).view(-1, count)


def totals_by_text(
    places: Int[Tensor, "group text number"], count: int, weights: Tensor | None = None
) -> Shaped[Tensor, "group place"]:
    """Return the same on a GPU. Each text has its own sums first, so that few threads add to one
    number.
    """
    made = places.new_ones((), dtype=torch.int64).expand_as(places) if weights is None else weights
    sums = made.new_zeros(*places.shape[:2], count)
    return sums.scatter_add_(2, places.long(), made).sum(1)


def quantiles(counts: np.ndarray, largest_power: int) -> dict[str, float]:
    """Return the middle of the bin that contains each quantile."""
    running = np.cumsum(counts)
    return {
        f"{q:g}": _middle(int(np.searchsorted(running, q * running[-1])), largest_power)
        for q in QUANTILES
    }


def _middle(place: int, largest_power: int) -> float:
    if place == 0:
        return 0.0
    octave, part = divmod(place - 1, PARTS)
    return float(2.0 ** (largest_power - OCTAVES + octave) * (1 + (part + 0.5) / PARTS))
