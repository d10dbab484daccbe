"""The contributions of sources to the chosen targets, as factors: T_ij = scale_i * sum_h A_hij
vectors_hj (+ own_i if j is i itself).

The vectors T_ij, targets x sources x d_model, are never computed, except those on the diagonal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from jaxtyping import Float, Int
from torch import Tensor

from mixlens.kernels.value_vectors import Vectors


@dataclass(frozen=True, kw_only=True)
class Decomposition:
    """The parts of one block's output for the chosen targets."""

    weights: Float[Tensor, "batch head target source"]
    vectors: Vectors
    scale: Float[Tensor, "batch target"]
    own: Float[Tensor, "batch own d_model"]  # the residual stream's part of each target
    own_is_source: bool  # whether it belongs to the target's own source (not in cross-attention)
    constant: (
        Float[Tensor, "batch target d_model"] | None
    )  # biases and shifts, which belong to no source
    total: Float[Tensor, "batch target d_model"]
    positions: Int[Tensor, "batch places"]  # position of each target among the sources
    causal: bool = False  # whether targets are all positions in order and see only earlier ones
    ends: Sequence[int] | None = None  # tokens of each text, if all of them are targets
    # Other vectors of each target, [batch, target, d_model], which are summed in a span.
    beside: Mapping[str, Tensor] = field(default_factory=dict)
    # Whether one target stands for a span (`kernels.spans`). Then `own` and `positions` are those
    # of its targets.
    folded: bool = False
    gate_folded: bool = False  # whether the gates of its targets are in the values

    @cached_property
    def diagonal(self) -> Float[Tensor, "batch own d_model"]:
        """Return T_ii, each summed exactly: here the residual may cancel most of the attention's
        contribution.
        """
        batch, heads, _, sources = self.weights.shape
        targets, itself = self.positions.shape[1], self.positions[:, None, :, None]
        weights = self.weights.expand(batch, heads, targets, sources)
        weights = weights.gather(3, itself.expand(batch, heads, targets, 1))[..., 0]
        groups = self.vectors.values.shape[1]
        own = itself.expand(batch, groups, targets, self.vectors.values.shape[-1])
        here = replace(self.vectors, values=self.vectors.values.gather(2, own))
        written = here.written_to_each(weights)
        return written.mul_(self.scale[..., None]).add_(self.own)

    def of_texts(self, texts: slice) -> Decomposition:
        """Return the parts of some texts of the batch."""
        return replace(
            self,
            weights=self.weights[texts],
            vectors=self.vectors.of_texts(texts),
            scale=self.scale[texts],
            own=self.own[texts],
            constant=None if self.constant is None else self.constant[texts],
            total=self.total[texts],
            positions=self.positions[texts],
            ends=None if self.ends is None else self.ends[texts],
            beside={name: vectors[texts] for name, vectors in self.beside.items()},
        )

    def up_to(self, end: int) -> Decomposition:
        """Return the parts of the first targets and sources."""
        return replace(
            self,
            weights=self.weights[:, :, :end, :end],
            vectors=self.vectors.up_to(end),
            scale=self.scale[:, :end],
            own=self.own[:, :end],
            constant=None if self.constant is None else self.constant[:, :end],
            total=self.total[:, :end],
            positions=self.positions[:, :end],
        )

    def with_diagonal(
        self, scores: Float[Tensor, "batch target source"], values: Float[Tensor, "batch own"]
    ) -> Float[Tensor, "batch target source"]:
        """Return scores with other numbers on the diagonal."""
        if self.folded:
            return scores.scatter(2, self.positions[:, None], values[:, None])
        return scores.scatter(2, self.positions[..., None], values[..., None])
