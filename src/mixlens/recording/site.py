"""One attention site of one recorded layer: its parts, rebuilt from the discovered structure and
checked against what was seen.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mixlens.contracts import AttentionKind
from mixlens.errors import RowsUnavailable, UnsupportedModel
from mixlens.kernels.decomposition import Decomposition
from mixlens.kernels.written import Vectors
from mixlens.recording.capture import AttentionCall
from mixlens.recording.differences import (
    attention_error,
    difference,
    product_difference,
    rounding,
    row_sizes,
)
from mixlens.recording.doubts import Doubts, row_error
from mixlens.recording.norms import LinearisedNorm, norm_of
from mixlens.recording.projection import affine_map
from mixlens.recording.structure import LayerStructure, SiteStructure, Witness


@dataclass(frozen=True)
class Internals:
    """What a recording keeps of one attention site."""

    attention: AttentionCall
    seen: Mapping[Witness, Tensor]
    layer_output: Tensor
    doubts: Doubts | None = None  # if checks wait for the end of the pass

    @classmethod
    def of_layer(
        cls,
        calls: Sequence[AttentionCall],
        seen: Mapping[Witness, Tensor],
        output: Tensor,
        doubts: Doubts | None = None,
    ) -> list[Internals]:
        """One for each attention call of a layer."""
        return [cls(call, seen, output, doubts) for call in calls]

    @property
    def nbytes(self) -> int:
        """Of what is kept and of what a rebuilt site adds to it: grouped values repeated, the
        block's output and its parts.
        """
        call = self.attention
        tensors = [call.weights, call.values, call.output, *self.seen.values()]
        kept = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        return kept + 5 * self.layer_output.numel() * self.layer_output.element_size()


@dataclass(frozen=True)
class Block:
    """From the output projection to the block's output, with the sigma of every norm held fixed."""

    maps: tuple[Callable[[Tensor], Tensor], ...]  # linear: what every contribution passes
    scale: Float[Tensor, "batch target"]
    own: Float[Tensor, "batch target d_model"]  # the residual's part
    total: Float[Tensor, "batch target d_model"]

    @classmethod
    def of(
        cls,
        structure: SiteStructure,
        residual: Tensor,
        projected: Tensor,
        branch: Sequence[LinearisedNorm],
        output_norm: LinearisedNorm | None,
    ) -> Block:
        """Without an output norm the total is the sum before it."""
        maps: list[Callable[[Tensor], Tensor]] = []
        state, scale = projected, torch.ones_like(projected[..., 0])
        for norm in branch:
            maps.append(norm.linear)
            inverse = norm.inverse_sigma(state)
            scale, state = scale * inverse, norm.with_inverse(state, inverse)
        if isinstance(structure.branch_scale, Tensor) or structure.branch_scale != 1:
            maps.append(structure.scaled)
        own, total = residual * structure.residual_scale, structure.total(residual, state)
        if output_norm is not None:
            inverse = output_norm.inverse_sigma(total)
            maps.append(output_norm.linear)
            scale, own = scale * inverse, output_norm.linear(own) * inverse[..., None]
            total = output_norm.with_inverse(total, inverse)
        return cls(tuple(maps), scale, own, total)


@dataclass(frozen=True)
class Parts:
    """A block's output as a sum over sources: y_i = sum_j T_ij + constant_i, T_ij = scale_i * sum_h
    A_hij vectors_hj (+ own_i if i = j).

    For cross-attention `own` belongs to no source and stands beside the sum.
    """

    vectors: Vectors
    scale: Float[Tensor, "batch target"]
    own: Float[Tensor, "batch target d_model"]
    constant: (
        Float[Tensor, "batch target d_model"] | None
    )  # None where the parts went on through a later norm
    total: Float[Tensor, "batch target d_model"]


@runtime_checkable
class Targets(Protocol):
    """Which targets are asked for."""

    def take(self, tensor: Tensor, dim: int) -> Tensor:
        """The wanted targets of a tensor [batch, ...] along its target axis."""
        ...

    def target_positions(self, batch: int, count: int, device: torch.device) -> Tensor:
        """[batch, target]: the position of every wanted target."""
        ...


@dataclass(frozen=True, kw_only=True)
class Site:
    """One attention site of one layer, for the whole batch, in float32 or better."""

    structure: SiteStructure
    weights: Float[Tensor, "batch head target source"]
    values: Float[Tensor, "batch kv_head source d_head"]  # of rows alone: as the model has them
    output_weight: Float[Tensor, "head d_head d_model"]
    output_bias: Float[Tensor, " d_model"]
    residual: Float[Tensor, "batch target d_model"]
    projected: Float[Tensor, "batch target d_model"]  # the attention module's output, A V W_O + b
    branch: tuple[LinearisedNorm, ...]
    output_norm: LinearisedNorm | None
    block: Block
    errors: Mapping[str, float]  # how far the parts are from what the model computed
    beside: Float[Tensor, "batch target d_model"] | None = None  # what sources of other kinds wrote

    def reading(self, kind: AttentionKind) -> Site:
        """The same site with the sources of one kind, if it reads both at once."""
        if self.structure.own_sources is None:
            return self
        targets, sources = self.weights.shape[2:]
        columns = self.structure.columns(kind, targets, sources)
        causal = self.structure.causal and kind is AttentionKind.SELF
        structure = replace(self.structure, kind=kind, causal=causal, own_sources=None)
        weights, values = self.weights[..., columns], self.values[:, :, columns]
        written = torch.einsum("bhte,hed->btd", weights @ values, self.output_weight)
        beside = self.projected - self.output_bias - written
        return replace(self, structure=structure, weights=weights, values=values, beside=beside)

    @property
    def block_output(self) -> Float[Tensor, "batch target d_model"]:
        """y: the stream after this site."""
        return self.block.total

    @property
    def head_groups(self) -> Int[Tensor, " head"]:
        """Which key-value head each query head reads."""
        groups = torch.arange(self.structure.kv_heads)
        return groups.repeat_interleave(self.structure.heads // self.structure.kv_heads)

    def head_values(self, head: int) -> Float[Tensor, "batch source d_head"]:
        """The value vectors that one query head reads, in float32 or better."""
        shared = self.structure.heads // self.values.shape[1]
        return self.values[:, head // shared].to(self.output_weight)

    def source_values(
        self, text: int, columns: Int[Tensor, " column"] | slice, heads: slice
    ) -> Float[Tensor, "column head d_head"]:
        """The value vectors of a few sources of one text, for the query heads that read them."""
        shared = self.structure.heads // self.values.shape[1]
        read = range(self.structure.heads)[heads]
        groups = slice(read[0] // shared, read[-1] // shared + 1)
        values = self.values[text, groups][:, columns].to(self.output_weight)
        first = read[0] - groups.start * shared
        repeated = values.repeat_interleave(shared, 0)[first : first + len(read)]
        return repeated.transpose(0, 1)

    @property
    def vectors(self) -> Vectors:
        """f: the value vectors after the output projection of their head, without its bias."""
        return self._through(self.output_weight)

    def _through(self, weight: Float[Tensor, "head d_head d_model"]) -> Vectors:
        return Vectors(self.values, weight.to(self.values))

    def transformed(self) -> Float[Tensor, "batch head source d_model"]:
        """`vectors`, multiplied out."""
        return self.vectors.of()

    def parts(self, *, normed: bool = True, through: LinearisedNorm | None = None) -> Parts:
        """The block's output (or with `normed=False` the sum before its output norm), split by
        source.

        `through` takes `vectors` and `own` on through the linear part of a later norm; `total`
        stays the block's.
        """
        block = self.block
        if not normed and self.output_norm is not None:
            block = Block.of(self.structure, self.residual, self.projected, self.branch, None)
        weight = self.output_weight
        for linear in block.maps:  # d_head rows for each head, not one for each source
            weight = linear(weight)
        if through is not None:
            onwards = self._through(through.linear(weight))
            return Parts(onwards, block.scale, through.linear(block.own), None, block.total)
        summed = self.projected - self.output_bias
        if self.beside is not None:
            summed = summed - self.beside
        for linear in block.maps:
            summed = linear(summed)
        constant = block.total - block.own - summed * block.scale[..., None]
        return Parts(self._through(weight), block.scale, block.own, constant, block.total)

    def decomposition(
        self, targets: Targets, *, normed: bool = True, through: LinearisedNorm | None = None
    ) -> Decomposition:
        """`parts` of the wanted targets, as the kernels take them."""
        parts, take = self.parts(normed=normed, through=through), targets.take
        batch, _, count, _ = self.weights.shape
        return Decomposition(
            weights=take(self.weights, 2),
            vectors=parts.vectors,
            scale=take(parts.scale, 1),
            own=take(parts.own, 1),
            own_is_source=self.structure.kind is AttentionKind.SELF,
            constant=None if parts.constant is None else take(parts.constant, 1),
            total=take(parts.total, 1),
            positions=targets.target_positions(batch, count, self.weights.device),
        )


def rebuilt_site(
    structure: SiteStructure,
    layer: LayerStructure,
    module: nn.Module,
    stream: Float[Tensor, "batch target d_model"],
    internals: Internals,
    where: str,
) -> Site:
    """The site from what was overheard; raises `UnsupportedModel` if its parts do not add up."""
    attention, dtype = internals.attention, internals.attention.output.dtype
    weights, rows = attention.weights.to(stream), attention.product is not None
    values = attention.values if rows else attention.values.to(stream)
    _require_plain_shapes(weights, values, attention, stream, where)
    if not rows:
        values = values.repeat_interleave(weights.shape[1] // values.shape[1], 1)
    path = structure.output_projection
    affine = affine_map(module.get_submodule(path), structure.heads * structure.d_head, stream)
    if affine is None:
        raise UnsupportedModel(f"{where}: `{path}` is no longer an affine map")
    matrix, bias = affine
    seen = internals.seen[Witness(path, "out")].to(stream).reshape(stream.shape)
    output = attention.output.to(stream)
    product_error = projection_error = 0.0
    if attention.product is not None:
        product = attention.product.to(stream)
        remade = product.flatten(2) @ matrix + bias
        projected = seen if dtype == stream.dtype else remade
        heads = output.abs().amax((-1, -2))[..., None]  # of one token
        parts = {
            "attention product": row_error(product, output, heads),
            "output projection": row_error(remade, seen),
        }
    elif dtype == stream.dtype:  # what was seen has all its digits: no product is made again
        projected = seen
        product_error = product_difference(output.transpose(1, 2), weights, values)
        projection_error = product_difference(seen, output.flatten(2), matrix, bias)
    else:
        projected = (weights @ values).transpose(1, 2).flatten(2) @ matrix + bias
        product_error = attention_error(weights, values, output, dtype)
        projection_error = difference(projected, seen, dtype=dtype)

    def norm(path: str) -> LinearisedNorm:
        form = norm_of(module.get_submodule(path), stream)
        if form is None:
            raise UnsupportedModel(f"{where}: `{path}` is no longer a norm or a scale")
        return form

    residual = stream if structure.residual_from is None else norm(structure.residual_from)(stream)
    branch = tuple(norm(path) for path in structure.branch)
    output_norm = None if structure.output_norm is None else norm(structure.output_norm)
    block = Block.of(structure, residual, projected, branch, output_norm)
    bar = rounding(stream, dtype)
    errors: dict[str, float] = {}

    def failure(part: str, error: float) -> UnsupportedModel:
        return (RowsUnavailable if rows else UnsupportedModel)(
            f"{where}, {structure.kind}-attention: the rebuilt {part} is off by {error:.1e}"
            f" (relative; {bar:.0e} would be rounding). No numbers are given for this model; please"
            " report its architecture."
        )

    if internals.doubts is not None:
        parts["block output"] = row_error(*_blocks(block, structure, layer, internals))
        for part, doubt in parts.items():
            internals.doubts.add(doubt, bar, functools.partial(failure, part))
    else:
        errors = {
            "attention product": product_error,
            "output projection": projection_error,
            "block output": _block_error(block, structure, layer, internals),
        }
    for part, error in errors.items():
        if not error <= bar:
            raise failure(part, error)
    return Site(
        structure=structure,
        weights=weights,
        values=values,
        output_weight=matrix.reshape(structure.heads, structure.d_head, -1),
        output_bias=bias,
        residual=residual,
        projected=projected,
        branch=branch,
        output_norm=output_norm,
        block=block,
        errors=errors,
    )


def _block_error(
    block: Block, structure: SiteStructure, layer: LayerStructure, internals: Internals
) -> float:
    """How far y is from the tensor in which the running layer had it."""
    return difference(*_blocks(block, structure, layer, internals), internals.layer_output.dtype)


def _blocks(
    block: Block, structure: SiteStructure, layer: LayerStructure, internals: Internals
) -> tuple[Tensor, Tensor, Tensor]:
    """y, the tensor in which the running layer had it, and the size of what was summed up."""
    rebuilt = block.total
    output = internals.layer_output.to(rebuilt)
    summands = torch.maximum(row_sizes(block.own), row_sizes(block.total))
    if structure.witness is None:
        return rebuilt, output, summands
    seen = internals.seen[structure.witness].to(rebuilt).reshape(rebuilt.shape)
    if not structure.parallel:
        return rebuilt, seen, summands
    assert layer.feed_forward is not None
    added = layer.feed_forward.scaled(seen)
    return rebuilt + added, output, torch.maximum(summands, row_sizes(added))


def _require_plain_shapes(
    weights: Tensor, values: Tensor, attention: AttentionCall, stream: Tensor, where: str
) -> None:
    batch, heads, targets, sources = weights.shape
    ok = batch == stream.shape[0] and targets == stream.shape[1] and heads % values.shape[1] == 0
    ok = ok and values.shape[0] == batch and values.shape[2] == sources
    if not ok or tuple(attention.output.shape) != (batch, targets, heads, values.shape[-1]):
        raise UnsupportedModel(
            f"{where}: attention works on pieces of the sequence (weights {tuple(weights.shape)}"
            f" for hidden states {tuple(stream.shape)}), as window, block and sparse attention do."
            " These are not supported."
        )
