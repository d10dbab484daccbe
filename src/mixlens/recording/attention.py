"""The attention of one recorded layer: weights, values, projection, residual and norms.

In a `Block`, the sigma of every norm is fixed, so that the block's output is a sum over sources
(`Parts`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mixlens.capture.attention_call import Visibility
from mixlens.contracts import AttentionKind, Targets
from mixlens.errors import UnsupportedModel
from mixlens.kernels.decomposition import ALL_CHANNELS, ChannelSlice, Decomposition, Vectors
from mixlens.structure.layer_structure import AttentionStructure
from mixlens.structure.norms import LinearisedNorm


@dataclass(frozen=True)
class Block:
    """The linear steps from the output projection to the block's output. The sigma of every norm is
    fixed.
    """

    maps: tuple[Callable[[Tensor], Tensor], ...]  # linear steps that every contribution passes
    inverses: tuple[Float[Tensor, "batch target"], ...]  # 1 / sigma of every norm on the way
    own: Float[Tensor, "batch target d_model"]  # the part of the residual
    total: Float[Tensor, "batch target d_model"]
    mixes_channels: bool  # whether a step centres its vectors; else each is a factor per channel

    @functools.cached_property
    def scale(self) -> Float[Tensor, "batch target"]:
        """Return the factor that scales every contribution: the product of all 1 / sigma."""
        if not self.inverses:
            return torch.ones_like(self.total[..., 0])
        return functools.reduce(torch.mul, self.inverses)

    @classmethod
    def of(
        cls,
        structure: AttentionStructure,
        residual: Tensor,
        projected: Tensor,
        branch: Sequence[LinearisedNorm],
        output_norm: LinearisedNorm | None,
    ) -> Block:
        """Create the block. Without an output norm, its total is the sum of residual and attention
        output.
        """
        maps: list[Callable[[Tensor], Tensor]] = []
        inverses: list[Tensor] = []
        state = projected
        for norm in branch:
            maps.append(norm.linear)
            state, inverse = norm.apply(state)
            inverses.append(inverse)
        if isinstance(structure.branch_scale, Tensor) or structure.branch_scale != 1:
            maps.append(structure.scale_branch)
        self_part, total = structure.scale_residual(residual), structure.total(residual, state)
        if output_norm is not None:
            total, inverse = output_norm.apply(total)
            maps.append(output_norm.linear)
            inverses.append(inverse)
            self_part = output_norm.linear(self_part).mul_(inverse[..., None])
        norms = (*branch, *(() if output_norm is None else (output_norm,)))
        mixes_channels = any(norm.centred for norm in norms)
        return cls(tuple(maps), tuple(inverses), self_part, total, mixes_channels)

    def passed(self, vectors: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
        """Apply all linear steps to vectors."""
        for linear in self.maps:
            vectors = linear(vectors)
        return vectors


@dataclass(frozen=True)
class Parts:
    """A block's output as a sum over sources: y_i = sum_j T_ij + constant_i.

    T_ij = scale_i * sum_h A_hij vectors_hj (+ own_i if i = j).

    `own` is the contribution of the residual. For cross-attention, the residual does not belong to
    any source, so it is added separately.
    """

    vectors: Vectors
    scale: Float[Tensor, "batch target"]
    own: Float[Tensor, "batch target d_model"]
    constant: Float[Tensor, "batch target d_model"] | None  # None if the parts passed a later norm
    total: Float[Tensor, "batch target d_model"]


@dataclass(frozen=True)
class OutputWeight:
    """The weight matrix of an output projection, or those of its columns that this process
    stores.
    """

    matrix: Float[Tensor, "d_in channel"]
    # As the model has it, if it is plain and so are the values.
    native: Float[Tensor, "d_in channel"] | None
    channels: ChannelSlice = ALL_CHANNELS


@dataclass(frozen=True, kw_only=True)
class Projection:
    """The output projection of an attention module, with the output that it computed."""

    heads: int
    own: OutputWeight  # the columns of this process, if others have the rest
    read_whole: Callable[[], OutputWeight]
    bias: Float[Tensor, " d_model"]
    output: Float[Tensor, "batch target d_model"]

    @cached_property
    def whole(self) -> OutputWeight:
        """Return the full matrix. If it is sharded, gather the columns from all processes."""
        return self.own if self.own.channels is ALL_CHANNELS else self.read_whole()

    def by_head(
        self, matrix: Float[Tensor, "d_in d_model"]
    ) -> Float[Tensor, "head d_head d_model"]:
        """Reshape a projection matrix from [head * d_head, d_model] to [head, d_head, d_model]."""
        return matrix.view(self.heads, -1, matrix.shape[1])


@dataclass(frozen=True, kw_only=True)
class BlockParts:
    """The residual and the norms between the output projection and the block's output."""

    residual: Float[Tensor, "batch target d_model"]
    branch: tuple[LinearisedNorm, ...]
    output_norm: LinearisedNorm | None
    block: Block


@dataclass(frozen=True, kw_only=True)
class Attention:
    """One attention module of a layer, recorded for the whole batch in float32 or float64."""

    structure: AttentionStructure
    weights: Float[Tensor, "batch head target source"]
    values: Float[Tensor, "batch kv_head source d_head"]  # for a few targets: as the model has them
    visibility: Visibility  # which sources each target sees in this pass
    gate: Float[Tensor, "batch target head d_head"] | None  # factors of A V, if any
    projection: Projection | None  # None for an open attention without one
    block_parts: BlockParts | None  # None for an open attention
    errors: Mapping[str, Tensor]  # errors of the parts against the model's activations
    beside: Float[Tensor, "batch target d_model"] | None = (
        None  # vectors from sources of other kinds
    )
    half: bool = False  # whether the model computed it in half precision

    @property
    def head_maps(self) -> Float[Tensor, "head d_head d_model"]:
        """Return the matrix of the output projection, split by head: [head, d_head, d_model].

        The gate of a gated attention is applied before this matrix.
        """
        return self._projection.by_head(self._projection.whole.matrix)

    @property
    def output_bias(self) -> Float[Tensor, " d_model"]:
        """Return the bias of the output projection."""
        return self._projection.bias

    @property
    def projected(self) -> Float[Tensor, "batch target d_model"]:
        """Return the attention module's output, A V W_O + b."""
        return self._projection.output

    @property
    def _projection(self) -> Projection:
        if self.projection is None:
            raise UnsupportedModel(
                f"the transformed vectors of the sources are unknown: {self.structure.open}"
            )
        return self.projection

    @property
    def residual(self) -> Float[Tensor, "batch target d_model"]:
        """Return the residual that is added to the attention's output."""
        return self._block_parts.residual

    @property
    def branch(self) -> tuple[LinearisedNorm, ...]:
        """Return the norms between the output projection and the residual connection."""
        return self._block_parts.branch

    @property
    def output_norm(self) -> LinearisedNorm | None:
        """Return the block's norm after the residual connection (post-norm layers), or None."""
        return self._block_parts.output_norm

    @property
    def block(self) -> Block:
        """Return the steps from the output projection to the block's output, with the sigma of each
        norm fixed.
        """
        return self._block_parts.block

    @property
    def _block_parts(self) -> BlockParts:
        if self.block_parts is None:
            raise UnsupportedModel(f"its output is not a known sum: {self.structure.open}")
        return self.block_parts

    def reading(self, kind: AttentionKind) -> Attention:
        """Return this attention restricted to its self-attention or its cross-attention sources.

        An attention that reads only one kind of source is returned unchanged.
        """
        if self.structure.own_sources is None:
            return self
        targets, sources = self.weights.shape[2:]
        columns = self.structure.columns(kind, targets, sources)
        causal = self.structure.causal and kind is AttentionKind.SELF
        structure = replace(self.structure, kind=kind, causal=causal, own_sources=None)
        weights, values = self.weights[..., columns], self.values[:, :, columns]
        visibility = self.visibility.columns(columns)
        restricted = replace(
            self, structure=structure, weights=weights, values=values, visibility=visibility
        )
        if self.projection is None:
            return restricted
        mixed = weights @ values
        if self.gate is not None:
            mixed = mixed * self.gate.transpose(1, 2)
        head_output = torch.einsum("bhte,hed->btd", mixed, self.head_maps)
        beside = self.projected - self.output_bias - head_output
        return replace(restricted, beside=beside)

    @property
    def output_weight(self) -> Float[Tensor, "head d_head d_model"]:
        """Return the output projection split by head. Raise `UnsupportedModel` if the attention is
        gated.
        """
        if self.gate is not None:
            raise UnsupportedModel(
                "the attention is gated, so its output projection differs between targets, "
                "but this measure needs the same projection for all targets. Use attention_norm, "
                "alti or value_zeroing, which support gates."
            )
        return self.head_maps

    @property
    def block_output(self) -> Float[Tensor, "batch target d_model"]:
        """Return the block's output y: the residual stream after this attention."""
        return self.block.total

    @cached_property
    def is_causal(self) -> bool:
        """Return whether no target attends to a later source in this forward pass.

        The layer structure alone is not enough, because it was inferred from a probe input, and a
        text may have its own mask.
        """
        can_be_causal = self.structure.causal and self.structure.kind is AttentionKind.SELF
        return can_be_causal and self.visibility.hides_later

    @property
    def head_groups(self) -> Int[Tensor, " head"]:
        """Return the index of the key-value head that each query head uses."""
        groups = torch.arange(self.structure.kv_heads)
        return groups.repeat_interleave(self.structure.heads // self.structure.kv_heads)

    def head_values(self, head: int) -> Float[Tensor, "batch source d_head"]:
        """Return the value vectors that a query head uses, in float32 or float64."""
        shared = self.structure.heads // self.values.shape[1]
        return self.values[:, head // shared].to(self.weights)

    @property
    def vectors(self) -> Vectors:
        """Return the transformed vectors f: each value vector multiplied by its head's slice of the
        output projection, without the bias.
        """
        return self._through(self.native_maps)

    @property
    def native_maps(self) -> Float[Tensor, "head d_head d_model"]:
        """Return `head_maps` in the precision of the values."""
        return self._natively(self._projection.whole)

    def _natively(self, weight: OutputWeight) -> Float[Tensor, "head d_head channel"]:
        native = weight.native
        if native is None or native.dtype != self.values.dtype:
            return self._projection.by_head(weight.matrix).to(self.values)
        return self._projection.by_head(native)

    def _through(
        self, weight: Float[Tensor, "head d_head channel"], channels: ChannelSlice = ALL_CHANNELS
    ) -> Vectors:
        gate = None if self.gate is None else self.gate.to(self.values)
        return Vectors(self.values, weight.to(self.values), gate, self.half, channels)

    def transformed(self) -> Float[Tensor, "batch head source d_model"]:
        """Return `vectors` as one tensor, computed for every head and source."""
        return self.vectors.of()

    def parts(
        self,
        *,
        normed: bool = True,
        through: LinearisedNorm | None = None,
        own_channels: bool = False,
    ) -> Parts:
        """Return the block's output split by source. With `normed=False`, split the sum before the
        block's output norm instead.

        If you pass a later norm as `through`, its linear part is applied to `vectors` and `own`,
        but not to `total`. With `own_channels`, all vectors contain only the channels of this
        process, if the channels are sharded over processes and no step mixes them.
        """
        block = self.block
        if not normed and self.output_norm is not None:
            block = Block.of(self.structure, self.residual, self.projected, self.branch, None)
        if through is not None:
            onwards = self._through(through.linear(block.passed(self.head_maps)))
            return Parts(onwards, block.scale, through.linear(block.own), None, block.total)
        summed = self.projected - self.output_bias
        if self.beside is not None:
            summed = summed - self.beside
        summed = block.passed(summed)
        constant = block.total - block.own - summed * block.scale[..., None]
        vectors = self._passed(block, own_channels)
        of = vectors.channels.of
        return Parts(vectors, block.scale, of(block.own), of(constant), of(block.total))

    def _passed(self, block: Block, own_channels: bool) -> Vectors:
        """Return `vectors` after the linear steps of a block."""
        output_weight = self._projection.own
        if not own_channels or block.mixes_channels or output_weight.channels is ALL_CHANNELS:
            # d_head rows for each head, not one for each source
            return self._through(block.passed(self.head_maps))
        factors = output_weight.channels.of(block.passed(torch.ones_like(self.output_bias)))
        return self._through(
            self._projection.by_head(output_weight.matrix * factors), output_weight.channels
        )

    def decomposition(
        self,
        targets: Targets,
        *,
        normed: bool = True,
        through: LinearisedNorm | None = None,
        own_channels: bool = False,
    ) -> Decomposition:
        """Return `parts` for the chosen targets, in the form that the kernels expect."""
        parts = self.parts(normed=normed, through=through, own_channels=own_channels)
        take = targets.take
        batch, _, count, _ = self.weights.shape
        return Decomposition(
            weights=take(self.weights, 2),
            vectors=parts.vectors.for_targets(take),
            scale=take(parts.scale, 1),
            own=take(parts.own, 1),
            own_is_source=self.structure.kind is AttentionKind.SELF,
            constant=None if parts.constant is None else take(parts.constant, 1),
            total=take(parts.total, 1),
            positions=targets.at(batch, count, self.weights.device),
            causal=self.is_causal and targets.are_all,
            ends=targets.token_counts(self.weights),
        )

    def written_parts(self, targets: Targets, *, own_channels: bool = False) -> Decomposition:
        """Return the output of the attention module split by source.

        The output bias, the residual stream, norms and scales are left out. `own_channels` has the
        same meaning as in `parts`.
        """
        weight = self._projection.own if own_channels else self._projection.whole
        vectors = self._through(self._natively(weight), weight.channels)
        batch, _, count, _ = self.weights.shape
        total = targets.take(self.projected, 1) - self.output_bias
        if self.beside is not None:
            total = total - targets.take(self.beside, 1)
        total = weight.channels.of(total)
        return Decomposition(
            weights=targets.take(self.weights, 2),
            vectors=vectors.for_targets(targets.take),
            scale=torch.ones_like(total[..., 0]),
            own=torch.zeros_like(total),
            own_is_source=False,
            constant=None,
            total=total,
            positions=targets.at(batch, count, self.weights.device),
            causal=self.is_causal and targets.are_all,
            ends=targets.token_counts(self.weights),
        )
