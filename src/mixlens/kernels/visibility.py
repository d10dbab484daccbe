"""Find the sources that each target can see in one forward pass.

The mask decides, not the weights: a masked source has weight zero, but so has one whose weight
underflows (float16 stops at 6e-8). A source is hidden if the mask puts it over 5,000 below the
largest entry of its row. Biases of a model (ALiBi, relative positions) are far smaller, and mask
values (-1e4, -1e9, the lowest number of a type, minus infinity) are not. If a row of the mask is
constant, however low, the softmax is that of the scores alone and every source is visible. Without
a mask (a plug-in that reports only weights), sources of weight zero count as hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mixlens.kernels import differences

_HIDES = 5e3


class Visibility:
    """The sources that the targets of one attention call can see.

    Layers with the same mask share it, so that each property is computed once.
    """

    def __init__(
        self,
        added: Tensor | None = None,
        *,
        seen: Bool[Tensor, "*batch target source"] | None = None,
        ends: Sequence[int] | None = None,
        triangle: bool = False,
    ) -> None:
        """Create the mask from `added`, the tensor added to the scores before the softmax, or from
        `seen`. Without either, nothing is hidden. `ends` is the largest number of sources that the
        targets of each text see, if known. `triangle` marks `seen` as a lower triangle, so that it
        need not be read.
        """
        self._added, self._seen, self._ends, self._triangle = added, seen, ends, triangle

    @classmethod
    def of_weights(cls, weights: Float[Tensor, "batch head target source"]) -> Visibility:
        """Return the sources that have any weight."""
        return cls(seen=weights != 0)

    @cached_property
    def seen(self) -> Bool[Tensor, "texts heads target source"] | None:
        """Return which sources each target sees; texts and heads are one if it is the same for all.

        Return None if every target sees every source.
        """
        seen = self._seen
        if seen is None:
            if self._added is None:
                return None
            seen = seen_through(self._added)
        seen = seen[(None,) * (4 - seen.dim())]
        one = seen[:, :1]
        return one if seen.shape[1] > 1 and bool((seen == one).all()) else seen

    @cached_property
    def hides_later(self) -> bool:
        """Return whether no target sees a later source. Targets must be all tokens, in order."""
        seen = self.seen
        if seen is None or seen.shape[-2] != seen.shape[-1]:
            return False
        return self._triangle or not bool(seen.triu(1).any())

    @cached_property
    def ends(self) -> list[int] | None:
        """Return the largest number of sources that the targets of each text see, or None for all
        of them.
        """
        if self._ends is not None:
            return list(self._ends)
        if self.seen is None:
            return None
        used = self.seen.flatten(1, 2).any(1)
        return (used * torch.arange(1, used.shape[1] + 1, device=used.device)).amax(1).tolist()

    @cached_property
    def blank(self) -> Bool[Tensor, "texts heads target 1"] | None:
        """Return targets that see nothing, for which torch's fused attention returns zeros, or None
        if there are none. On a GPU it is a mask even then, because reading it would stop the queue.
        """
        if self.seen is None or self._triangle:
            return None
        blank = ~self.seen.any(-1, keepdim=True)
        return blank if not differences.may_look_at(blank) or bool(blank.any()) else None

    def columns(self, sources: slice) -> Visibility:
        """Return the same for some sources."""
        return Visibility(seen=None if self.seen is None else self.seen[..., sources])


def seen_through(
    added: Float[Tensor, "*batch target source"],
) -> Bool[Tensor, "*batch target source"]:
    """Return which sources keep a weight after this was added to their scores."""
    return (added >= added.amax(-1, keepdim=True) - _HIDES) & (added > -torch.inf)
