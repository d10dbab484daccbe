"""Contribution weights: the projection of each source's vector onto the attention output, c_ij .
o_i / |o_i|^2 with o_i = sum_j c_ij.

This follows Cunningham & Cirone 2026 (https://arxiv.org/abs/2606.07604), who combine the attention
weight with the norm and the direction of the value. Their equation was not available to us, so the
formula is our own. With `per_head`, the vectors A_hij f_hj of each head are projected onto their
sum over j. The bias of the output projection is not assigned to any source and is excluded. Scores
are signed and sum to one. If the sources' vectors cancel, o_i is short and scores are large.
`uncancelled` is |o_i| / sum_j |c_ij|, which is one if nothing cancels.

The vectors are never computed: c_ij . o_i = sum_h A_hij v_hj . (W_h o_i), so a target costs sources
x d_model multiplications, the same number as for its attention weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.contracts import Facts, LayerScores, SpanRule, Spec, Targets
from mixlens.kernels.chunks import block_bytes, slices
from mixlens.kernels.decomposition import Decomposition, Vectors
from mixlens.kernels.gram import head_norms, part_norms

if TYPE_CHECKING:
    from mixlens.recording.attention import Attention
    from mixlens.recording.layer import Layer


SPEC = Spec(
    summary=(
        "signed projection of each source's vector onto the sum of all vectors of the attention"
        " output"
    ),
    citation=(
        "Cunningham & Cirone 2026, arXiv:2606.07604, for the idea; the equation is ours, as theirs"
        " was not available"
    ),
    use_when=(
        "for scores that add up over sources and segments, and to see which sources work against"
        " the rest"
    ),
    cost="1 forward pass + head^2 n^2 per layer",
    facts=Facts(signed=True, rows_sum_to_one=True),
    splits="projection",
    per_head=True,
    row_by_row=True,
    within_blocks=True,
    limitations=(
        "accounts for the direction of a value, but neither for the residual stream nor for the"
        " rest of the layer. If values cancel, scores are large and have both signs. A token that"
        " only changes the attention weights, as in a counting program, adds no vector and gets a"
        " score of zero"
    ),
    memory=lambda sizes: (
        2 * sizes.heads * sizes.targets * sizes.sources
        + sizes.heads * sizes.targets * sizes.d_model
        + sizes.block
    ),
    # A quotient of sums that may cancel.
    half_precision=0.35,
)


def score_layer(
    layer: Layer, attention: Attention, targets: Targets, *, per_head: bool = False
) -> LayerScores:
    """Return the projections of each head's vectors, or of their sum over heads."""
    parts = _split(layer, attention, targets)
    return _score(_weigh(parts, layer.memory_budget, per_head=per_head), per_head=per_head)


def _split(
    layer: Layer, attention: Attention, targets: Targets, *, per_head: bool = False
) -> Decomposition:
    return attention.written_parts(targets)


def _weigh(parts: Decomposition, budget: int, *, per_head: bool = False) -> Mapping[str, Tensor]:
    limit = block_bytes(budget)
    weights = parts.weights * parts.scale[:, None, :, None]
    products, whole = projections(weights, parts.vectors, limit, per_head=per_head)
    norms = head_lengths(parts, limit) if per_head else part_norms(parts, limit)
    squares = {"products": products, "lengths": norms.square()}
    return {
        "whole": whole.movedim(-1, 1),
        **{name: each.movedim(-2, 1) for name, each in squares.items()},
    }


def _score(weighed: Mapping[str, Tensor], *, per_head: bool = False) -> LayerScores:
    """Return c_ij . o_i / |o_i|^2, or zeros for a target whose attention output is zero."""
    products, whole = weighed["products"].movedim(1, -2), weighed["whole"].movedim(1, -1)
    values = torch.where(whole[..., None] > 0, products / whole[..., None], 0.0)
    lengths = weighed["lengths"].movedim(1, -2).sqrt().sum(-1)
    remains = whole.sqrt() / lengths.clamp_min(torch.finfo(lengths.dtype).tiny)
    dims = {"uncancelled": ("head", "target") if per_head else ("target",)}
    return LayerScores(values, {"uncancelled": remains}, dims)


SPAN = SpanRule(split=_split, weigh=_weigh, score=_score)


def projections(
    weights: Float[Tensor, "batch head target source"],
    vectors: Vectors,
    limit: int,
    *,
    per_head: bool = False,
) -> tuple[Float[Tensor, "batch *head target source"], Float[Tensor, "batch *head target"]]:
    """Return c_ij . o_i and |o_i|^2 for whole layers or for each head.

    Targets are processed in blocks of at most `limit` bytes.
    """
    batch, heads, targets, sources = weights.shape
    values, matrix = vectors.values.to(weights), vectors.matrix.to(weights)
    row_bytes = 2 * weights.element_size() * batch * heads * (sources + vectors.width)
    products, squares = [], []
    for rows in slices(targets, row_bytes, limit):
        few = weights[:, :, rows]
        mixed = _by_group(few, values)
        gate = None if vectors.gate is None else vectors.gate[:, rows].transpose(1, 2).to(weights)
        if gate is not None:
            mixed = mixed * gate
        head_outputs = torch.einsum("bhte,hed->bhtd", mixed, matrix)
        if not per_head:
            head_outputs = head_outputs.sum(1, keepdim=True)
        back = (
            torch.einsum("bktd,hed->bhte", head_outputs, matrix)
            if not per_head
            else head_outputs @ matrix.mT
        )
        if gate is not None:
            back = back * gate
        dots = _by_group(back, values.mT).mul_(few)
        products.append(dots if per_head else dots.sum(1))
        squared = head_outputs.square().sum(-1)
        squares.append(squared if per_head else squared[:, 0])
    return torch.cat(products, -2), torch.cat(squares, -1)


def _by_group(
    left_factor: Float[Tensor, "batch head target inner"],
    columns: Float[Tensor, "batch kv_head inner out"],
) -> Float[Tensor, "batch head target out"]:
    """Return the matrix product with grouped keys or values (GQA), without repeating them for each
    head.
    """
    batch, heads, targets, inner = left_factor.shape
    grouped = left_factor.reshape(batch, columns.shape[1], -1, inner) @ columns
    return grouped.view(batch, heads, targets, -1)


def head_lengths(parts: Decomposition, limit: int) -> Float[Tensor, "batch head target source"]:
    """Return scale_i |A_hij f_hj|, computed from the Gram matrix of each head's projection."""
    weights, vectors = parts.weights, parts.vectors
    if vectors.gate is not None:
        return head_norms(parts.weights, parts.vectors, limit) * parts.scale.abs()[:, None, :, None]
    values, matrix = vectors.heads().to(weights), vectors.matrix.to(weights)
    squares = ((values @ (matrix @ matrix.mT)) * values).sum(-1)
    return weights * parts.scale[:, None, :, None] * squares.clamp_min_(0).sqrt_()[:, :, None]
