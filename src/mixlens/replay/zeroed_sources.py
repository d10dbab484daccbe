"""Sources whose value is set to zero, and how the wanted targets read them.

With v_j = 0 the attention output of target i loses c_ij = sum_h A^h_ij f^h_j and nothing else
changes before the rest of the layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mixlens.kernels.differences import row_sizes
from mixlens.kernels.distances import Rows
from mixlens.recording.attention import Attention

MASSIVE = 1e3  # times the usual value


@dataclass(frozen=True)
class Sources:
    """A few source tokens of one text, and how a range of the wanted targets reads them."""

    text: int
    columns: Int[Tensor, " source"] | slice | None  # None: not a token of the text
    targets: slice  # among the wanted ones
    heads: slice
    weights: Float[Tensor, "source target head"]
    values: Float[Tensor, "source head d_head"]
    linked: Bool[Tensor, "source target"]  # pairs that attention connects


@runtime_checkable
class Rest(Protocol):
    """The rest of a layer: its output for every linked pair with the source's value set to zero, in
    the order of `linked.nonzero()`.
    """

    mixes: bool  # may a target change with a source that it does not read?

    def __call__(self, sources: Sources, /) -> Rows:
        """The rows of every linked pair."""
        ...


def sources_of(
    site: Attention, weights: Tensor, linked: Tensor, text: int, columns: Tensor, heads: slice
) -> Sources:
    """The named source columns, with the range of targets that read any of them: for causal
    attention those that come later.
    """
    rows = linked[:, columns].any(1).nonzero()[:, 0]
    targets = slice(int(rows[0]), int(rows[-1]) + 1)
    return sources_within(site, weights, linked, text, columns, targets, heads)


def sources_within(
    site: Attention,
    weights: Tensor,
    linked: Tensor,
    text: int,
    columns: Tensor | slice,
    targets: slice,
    heads: slice,
) -> Sources:
    """The named source columns, with a range of targets."""
    taken = (
        weights[text, heads, targets][:, :, columns].permute(2, 1, 0).contiguous()
    )  # else each source is a product by itself
    values = site.source_values(text, columns, heads)
    return Sources(text, columns, targets, heads, taken, values, linked[targets][:, columns].T)


def nothing_zeroed(site: Attention, text: int, count: int) -> Sources:
    """A source that no target reads: the unedited outputs, rounded as the edited ones are."""
    heads, d_head, like = site.structure.heads, site.values.shape[3], site.weights
    weights, values = like.new_zeros(1, count, heads), like.new_zeros(1, heads, d_head)
    everywhere = torch.ones_like(weights[..., 0], dtype=torch.bool)
    return Sources(text, None, slice(0, count), slice(0, heads), weights, values, everywhere)


def is_massive(site: Attention) -> bool:
    """Is some value so much larger than the usual one that o_i - c_ij is rounding without it?"""
    sizes = row_sizes(site.values)
    return bool((sizes.amax(-1) > MASSIVE * sizes.median(-1).values).any())
