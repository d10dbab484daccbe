"""Contribution weights: the projection of each source's vector onto the attention output, c_ij .
o_i / |o_i|^2 with o_i = sum_j c_ij.

After Cunningham & Cirone 2026 (https://arxiv.org/abs/2606.07604): the weight, the norm of the value
and its direction count. Their equation was not available, so this one is ours. Per head the vectors
are those of the head, A_hij f_hj against their sum. The bias of the output projection belongs to no
source and is excluded. Scores are signed and sum to one. If values cancel, o_i is short and scores
are large: `uncancelled` is |o_i| / sum_j |c_ij|, one if nothing cancels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from mixlens.contracts import Facts, LayerScores, SpanRule, Spec, Targets
from mixlens.kernels.chunks import block_bytes
from mixlens.kernels.gram import part_norms
from mixlens.kernels.projections import head_lengths, projections

if TYPE_CHECKING:
    from torch import Tensor

    from mixlens.kernels.decomposition import Decomposition
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
    blind_spots=(
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
    """Return the projections of each head's vectors, or of their sum."""
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
    """Return c_ij . o_i / |o_i|^2, or zeros for a target with an attention output of zero."""
    products, whole = weighed["products"].movedim(1, -2), weighed["whole"].movedim(1, -1)
    values = torch.where(whole[..., None] > 0, products / whole[..., None], 0.0)
    lengths = weighed["lengths"].movedim(1, -2).sqrt().sum(-1)
    remains = whole.sqrt() / lengths.clamp_min(torch.finfo(lengths.dtype).tiny)
    dims = {"uncancelled": ("head", "target") if per_head else ("target",)}
    return LayerScores(values, {"uncancelled": remains}, dims)


SPAN = SpanRule(split=_split, weigh=_weigh, score=_score)
