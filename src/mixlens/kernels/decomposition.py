"""What each source writes into each chosen target, as factors: T_ij = scale_i * sum_h A_hij
vectors_hj (+ own_i where j is i itself).

The vectors T_ij themselves, targets x sources x d_model, are never formed; only those on the
diagonal are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Decomposition:
    """The parts of one block's output for the chosen targets."""

    weights: Float[Tensor, "batch head target source"]
    vectors: Float[Tensor, "batch head source d_model"]
    scale: Float[Tensor, "batch target"]
    own: Float[Tensor, "batch target d_model"]  # the residual stream's part
    own_is_source: (
        bool  # does it belong to the source at the target's own position? Not in cross-attention
    )
    constant: (
        Float[Tensor, "batch target d_model"] | None
    )  # biases and shifts: they belong to nobody
    total: Float[Tensor, "batch target d_model"]
    positions: Int[Tensor, "batch target"]  # where each target stands among the sources

    @cached_property
    def diagonal(self) -> Float[Tensor, "batch target d_model"]:
        """T_ii, each added up as it stands: here the residual may cancel most of what attention
        writes.
        """
        batch, heads, targets, sources = self.weights.shape
        weights, vectors = self.weights, self.vectors
        if targets == sources and torch.equal(
            self.positions, torch.arange(targets, device=weights.device).expand(batch, -1)
        ):
            weights = weights.diagonal(dim1=2, dim2=3)
        else:
            itself = self.positions[:, None, :, None]
            weights = weights.gather(3, itself.expand(batch, heads, targets, 1))[..., 0]
            vectors = vectors.gather(2, itself.expand(batch, heads, targets, vectors.shape[-1]))
        written = torch.zeros_like(self.own)
        for head in range(heads):
            written.addcmul_(weights[:, head, :, None], vectors[:, head])
        return written.mul_(self.scale[..., None]).add_(self.own)

    def with_diagonal(
        self, scores: Float[Tensor, "batch target source"], values: Float[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target source"]:
        """Scores with other numbers where a target meets itself."""
        return scores.scatter(2, self.positions[..., None], values[..., None])
