"""Quantiles without the values: counts in bins that grow with the value.

A bin is a sixteenth of an octave, so a quantile is known to 5 % of itself. Two sketches are
merged by adding their counts: any order gives the same sketch. The idea is that of DDSketch
(Masson et al. 2019, https://arxiv.org/abs/1908.10693), with bins read off the bits of a float.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

OCTAVES = 24  # below the largest power of two; what is smaller counts as zero
PARTS = 16  # of an octave
BINS = 1 + OCTAVES * PARTS
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_SHIFT = 23 - 4  # of a float32's bits: the exponent and four bits of the mantissa are left


def sketch(
    values: Float[Tensor, "group text number"], largest_power: int
) -> Int[Tensor, "group bin"]:
    """Counts by bin of numbers that are at least zero and at most 2**largest_power."""
    below = (127 + largest_power - OCTAVES) * PARTS - 1
    bins = (values.float().view(torch.int32) >> _SHIFT).sub_(below)
    return totals(bins.clamp_(0, BINS - 1), BINS)


def totals(
    places: Int[Tensor, "group text number"], count: int, weights: Tensor | None = None
) -> Shaped[Tensor, "group place"]:
    """How often each place is named in a group, or the sum of the weights given there."""
    if places.device.type != "cpu":  # `bincount` looks at the largest number, and a GPU would wait
        return totals_by_text(places, count, weights)
    groups = torch.arange(len(places), dtype=places.dtype)[:, None, None]
    flat = (places + groups * count).flatten()
    given = None if weights is None else weights.flatten()
    return flat.bincount(given, minlength=len(places) * count).view(-1, count)


def totals_by_text(
    places: Int[Tensor, "group text number"], count: int, weights: Tensor | None = None
) -> Shaped[Tensor, "group place"]:
    """The same for a GPU. Each text has sums of its own at first: few threads add to one number."""
    made = places.new_ones((), dtype=torch.int64).expand_as(places) if weights is None else weights
    sums = made.new_zeros(*places.shape[:2], count)
    return sums.scatter_add_(2, places.long(), made).sum(1)


def quantiles(counts: np.ndarray, largest_power: int) -> dict[str, float]:
    """The middle of the bin that each quantile lies in."""
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
