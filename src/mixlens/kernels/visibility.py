"""Which sources each target can see: real tokens, those before it if the model is causal, those
inside its window if there is one.

A masked source has weight zero, but so has one whose weight is too small for a number (float16
stops at 6e-8). So a window is read off the whole map: it is the largest distance at which any head
of any real target gives any weight. If a few targets are all there is, it is read off their mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Visibility:
    """The sources that targets at given positions can see, for every row of a batch."""

    lengths: Int[Tensor, " batch"]  # real sources
    causal: bool
    reach: Int[Tensor, " batch"] | None  # the largest distance that is seen; None: no window

    @property
    def shared(self) -> bool:
        """Do all targets of a row see the same sources?"""
        return not self.causal and self.reach is None

    def of(
        self, positions: Int[Tensor, "batch target"], sources: int
    ) -> Bool[Tensor, "batch target source"]:
        """Which sources the targets at these positions see."""
        columns = torch.arange(sources, device=positions.device)
        seen = (columns < self.lengths[:, None])[:, None].expand(-1, positions.shape[1], -1)
        if self.causal:
            seen = seen & (columns <= positions[..., None])
        if self.reach is not None:
            seen = seen & ((columns - positions[..., None]).abs() <= self.reach[:, None, None])
        return seen

    @classmethod
    def of_weights(
        cls,
        weights: Float[Tensor, "batch head target source"],
        targets: Sequence[int],
        sources: Sequence[int],
        *,
        causal: bool,
        self_attention: bool,
    ) -> Visibility:
        """From a whole map and the numbers of real targets and sources of each row."""
        lengths = torch.tensor(list(sources), device=weights.device)
        reach = None
        if self_attention:
            farthest = [
                _farthest(row[:, :count, :count])
                for row, count in zip(weights, targets, strict=True)
            ]
            if any(distance < count - 1 for distance, count in zip(farthest, targets, strict=True)):
                reach = torch.tensor(farthest, device=weights.device)
        return cls(lengths, causal, reach)

    @classmethod
    def of_rows(
        cls,
        mask: Float[Tensor, "batch head target source"] | None,
        positions: Int[Tensor, "batch target"],
        sources: Sequence[int],
        *,
        causal: bool,
        self_attention: bool,
    ) -> Visibility:
        """From what was added to the scores of targets at these positions; None: nothing."""
        lengths = torch.tensor(list(sources), device=positions.device)
        free = cls(lengths, causal, None)
        if mask is None or not self_attention:
            return free
        seen = (mask > torch.finfo(mask.dtype).min / 2).any(1)
        apart = (torch.arange(mask.shape[-1], device=mask.device) - positions[..., None]).abs()
        reach = torch.where(seen, apart, 0).amax((1, 2))
        possible = torch.where(free.of(positions, mask.shape[-1]), apart, 0).amax((1, 2))
        return cls(lengths, causal, reach) if bool((reach < possible).any()) else free


def _farthest(weights: Float[Tensor, "head target source"]) -> int:
    """The largest distance with a weight that is not zero."""
    count = weights.shape[-1]
    if bool((weights[:, -1, 0] != 0).any()):  # no window, almost always
        return count - 1
    used = (weights != 0).any(0)
    for distance in range(count - 1, 0, -1):
        if bool(used.diagonal(-distance).any()) or bool(used.diagonal(distance).any()):
            return distance
    return 0
