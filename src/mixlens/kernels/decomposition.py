"""The contributions of sources to the chosen targets, stored as factors: T_ij = scale_i * sum_h
A_hij vectors_hj (+ own_i if j is i itself).

T_ij is the contribution of source j to target i, and own_i is the contribution of target i's
residual stream. The full tensor of T_ij (targets x sources x d_model) is never computed, only its
diagonal.

`Vectors` stores the vectors of the sources as two factors: vectors_hj = values_hj matrix_h. The
product for all sources would be the largest tensor (heads x sources x d_model), so it is computed
for a few sources at a time. If there are only a few targets (see `Vectors.few`), it is not needed:
multiplying the weighted values A_hij values_hj by the stacked matrices of all heads also sums over
the heads. Products are computed in the precision of the factors, and their results are converted to
the precision of the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class ChannelSlice:
    """Describes the slice of a vector's channels that this process stores.

    By default, this is the whole vector. For a sum or norm over all channels, the partial results
    of all processes are gathered and combined in a fixed order, so every process gets a bitwise
    identical result.
    """

    start: int = 0
    stop: int | None = None
    # Takes a result of this process and returns those of all, [process, ...]. None: it has all
    # channels.
    gather: Callable[[Tensor], Tensor] | None = None

    def of(self, vectors: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows channel"]:
        """Return the channels of `vectors` that this process stores."""
        return vectors if self.gather is None else vectors[..., self.start : self.stop]

    def join(self, part: Float[Tensor, "*rows channel"]) -> Float[Tensor, "*rows d_model"]:
        """Gather the channels of all processes and return the full vectors."""
        return part if self.gather is None else torch.cat(list(self.gather(part)), -1)

    def sum(self, part: Tensor) -> Tensor:
        """Return the sum over all channels, given the sum over the channels of this process."""
        return part if self.gather is None else self.gather(part).sum(0)

    def norm(self, part: Tensor) -> Tensor:
        """Return the norm over all channels, given the norm over the channels of this process."""
        if self.gather is None:
            return part
        norm: Tensor = torch.linalg.vector_norm(self.gather(part), dim=0)
        return norm


ALL_CHANNELS = ChannelSlice()

_DIRECT = {
    torch.float16: 32,
    torch.bfloat16: 32,
}  # half-precision products are cheap, float32 ones are not


@dataclass(frozen=True)
class Vectors:
    """Stores the vectors of all heads and sources as two factors, multiplied on demand."""

    values: Float[Tensor, "batch kv_head source d_head"]
    matrix: Float[Tensor, "head d_head d_model"]
    gate: Float[Tensor, "batch target head d_head"] | None = (
        None  # factors of each target on the values
    )
    half: bool = False  # whether the model had the factors in half precision
    channels: ChannelSlice = ALL_CHANNELS  # the columns of `matrix`

    def for_targets(self, take: Callable[[Tensor, int], Tensor]) -> Vectors:
        """Return the vectors for some targets, which the function `take(tensor, axis)` selects."""
        return self if self.gate is None else replace(self, gate=take(self.gate, 1))

    def of_texts(self, texts: slice) -> Vectors:
        """Return the vectors for some texts of the batch."""
        gate = None if self.gate is None else self.gate[texts]
        return replace(self, values=self.values[texts], gate=gate)

    def up_to(self, end: int) -> Vectors:
        """Return the vectors of the first `end` sources."""
        return replace(self, values=self.values[:, :, :end])

    def head(self, number: int) -> Vectors:
        """Return the vectors of a single head."""
        one = slice(number, number + 1)
        group = number * self.values.shape[1] // len(self.matrix)
        gate = None if self.gate is None else self.gate[:, :, one]
        values = self.values[:, group : group + 1]
        return replace(self, values=values, matrix=self.matrix[one], gate=gate)

    @property
    def width(self) -> int:
        """Return the number of channels of each vector."""
        return int(self.matrix.shape[-1])

    def heads(
        self, part: slice | Int[Tensor, " part"] = slice(None)
    ) -> Float[Tensor, "batch head part d_head"]:
        """Return the values of the selected sources for every head.

        With grouped-query attention, values are repeated for every head that shares them.
        """
        values, shared = self.values[:, :, part], len(self.matrix) // self.values.shape[1]
        return values if shared == 1 else values.repeat_interleave(shared, 1)

    def of(self, part: slice = slice(None)) -> Float[Tensor, "batch head part d_model"]:
        """Compute the vectors of the selected sources.

        Raise an error if gates are applied to the values, because the vectors then differ between
        targets.
        """
        if self.gate is not None:
            raise ValueError("The vectors are gated, so they differ for each target.")
        values = self.heads(part)
        batch, _, sources, _ = values.shape
        rows = values.transpose(0, 1).flatten(1, 2)  # one product for each head, not for each text
        products = torch.bmm(rows, self.matrix)
        return products.view(len(products), batch, sources, self.width).transpose(0, 1)

    def source(self, limit: int) -> Callable[[slice], Float[Tensor, "batch head part d_model"]]:
        """Return a function that takes a slice of sources and returns their vectors.

        If all vectors fit in `limit` bytes, they are computed once in advance.
        """
        batch, _, sources, _ = self.values.shape
        size = batch * len(self.matrix) * sources * self.width * self.matrix.element_size()
        if size > limit:
            return self.of
        formed = self.of()
        return lambda part: formed[:, :, part]

    def few(self, targets: int) -> bool:
        """Return whether there are so few targets that summing over the heads for each pair of
        target and source is cheaper than computing the vectors of every source.

        With gates, the result is always True, because the vectors then differ between targets.
        """
        return self.gate is not None or targets <= _DIRECT.get(self.values.dtype, 1)

    def write(
        self, weights: Float[Tensor, "batch head part"], part: slice, target: int
    ) -> Float[Tensor, "batch part d_model"]:
        """Return sum_h weights_hj vectors_hj, the contribution of each selected source to one
        target.

        The result has the precision of the vectors.
        """
        values = self.values[:, :, part].transpose(1, 2)[:, :, :, None]
        batch, sources, groups, _, width = values.shape
        shared = self.matrix.shape[0] // groups
        factors = weights.view(batch, groups, shared, sources).permute(0, 3, 1, 2)[..., None]
        weighted = values.new_empty(batch, sources, groups, shared, width)
        torch.mul(factors, values, out=weighted)  # one pass: no copy for each head, none transposed
        if self.gate is not None:
            weighted *= self.gate[:, target].reshape(batch, 1, groups, shared, width)
        return weighted.flatten(2) @ self.matrix.flatten(0, 1)

    def write_pairs(
        self, weights: Float[Tensor, "batch head target part"], part: slice
    ) -> Float[Tensor, "part row d_model"]:
        """Return sum_h weights_hij vectors_hj, the contribution of each selected source to each
        target.

        In the result, the targets of all texts are concatenated along the "row" axis.
        """
        by_source = weights.permute(0, 3, 2, 1)  # [batch, part, target, head]
        if self.few(weights.shape[2]):
            values = self.values[:, :, part].transpose(1, 2)[:, :, None, :, None]
            groups = self.values.shape[1]
            factors = by_source.reshape(*by_source.shape[:3], groups, -1, 1)
            weighted = values.new_empty(*factors.shape[:-1], values.shape[-1])
            torch.mul(factors, values, out=weighted)  # one pass: no copy of shared values
            if self.gate is not None:
                weighted *= self.gate[:, None].reshape(weighted[:, :1].shape)
            contributions = weighted.flatten(3) @ self.matrix.flatten(0, 1)
        else:
            contributions = by_source.contiguous() @ self.of(part).transpose(1, 2).to(weights.dtype)
        return contributions.transpose(0, 1).flatten(1, 2)

    def write_segments(
        self,
        weights: Float[Tensor, "batch head target source"],
        segments: Sequence[Int[Tensor, " _"]],
    ) -> Float[Tensor, "segment row d_model"]:
        """Return the joint contribution of each segment's sources to each target: sum_j sum_h
        weights_hij vectors_hj over all sources j in the segment.

        The values of a segment are summed before the product, so a segment costs as much as one
        source.
        """
        mixed = torch.stack(
            [weights[..., members] @ self.heads(members).to(weights.dtype) for members in segments]
        ).transpose(2, 3)  # [segment, batch, target, head, d_head]
        if self.gate is not None:
            mixed = mixed * self.gate
        contributions = mixed.flatten(3).to(self.matrix.dtype) @ self.matrix.flatten(0, 1)
        return contributions.flatten(1, 2)

    def written_to_each(
        self, weights: Float[Tensor, "batch head target"]
    ) -> Float[Tensor, "batch target d_model"]:
        """Return the contribution of source i to target i for every i, given weights of one source
        per target.
        """
        values = self.heads()
        if self.gate is not None:
            values = values * self.gate.transpose(1, 2)
        weighted = weights.to(values.dtype)[..., None] * values
        contributions = weighted.transpose(1, 2).flatten(2) @ self.matrix.flatten(0, 1)
        return contributions.to(weights.dtype)


@dataclass(frozen=True, kw_only=True)
class Decomposition:
    """Stores the output of one attention block for the chosen targets, split by source.

    All vectors have the same channels as `vectors`.
    """

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
    # Whether one target stands for a span (`recording.span_scores`). Then `own` and `positions` are
    # those of its targets.
    folded: bool = False
    gate_folded: bool = False  # whether the gates of its targets are in the values

    @cached_property
    def diagonal(self) -> Float[Tensor, "batch own d_model"]:
        """Return T_ii, the contribution of each target to itself.

        It is summed explicitly, because the residual stream may cancel most of the attention's
        contribution.
        """
        batch, heads, _, sources = self.weights.shape
        targets, itself = self.positions.shape[1], self.positions[:, None, :, None]
        weights = self.weights.expand(batch, heads, targets, sources)
        weights = weights.gather(3, itself.expand(batch, heads, targets, 1))[..., 0]
        groups = self.vectors.values.shape[1]
        itself_values = itself.expand(batch, groups, targets, self.vectors.values.shape[-1])
        own_vectors = replace(self.vectors, values=self.vectors.values.gather(2, itself_values))
        contributions = own_vectors.written_to_each(weights)
        return contributions.mul_(self.scale[..., None]).add_(self.own)

    def of_texts(self, texts: slice) -> Decomposition:
        """Return the decomposition for the selected texts of the batch."""
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
        """Return the decomposition for the first `end` targets and sources."""
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
        """Return a copy of the scores with the diagonal replaced by `values`."""
        if self.folded:
            return scores.scatter(2, self.positions[:, None], values[:, None])
        return scores.scatter(2, self.positions[..., None], values[..., None])
