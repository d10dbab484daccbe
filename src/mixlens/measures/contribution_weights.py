"""Contribution weights: the projection of what each source writes on all that attention writes,
c_ij . o_i / |o_i|^2 with o_i = sum_j c_ij.

After Cunningham & Cirone 2026 (https://arxiv.org/abs/2606.07604): weight, length of the value and
its direction count. Their equation was not available, so this one is ours. Per head the vectors are
those of the head, A_hij f_hj against their sum. The bias of the output projection belongs to no
source and is left out. Scores are signed, and a row sums to one. If values cancel, o_i is short and
scores are large: `uncancelled` is |o_i| / sum_j |c_ij|, one if nothing cancels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from mixlens.contracts import Facts, LayerScores, Spec, Targets
from mixlens.kernels.chunks import block_bytes
from mixlens.kernels.gram import summed_norms
from mixlens.kernels.projections import head_lengths, projections

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from mixlens.kernels.value_vectors import Vectors
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
    limit = block_bytes(layer.memory_budget)
    weights = targets.take(attention.weights, 2)
    vectors = attention.vectors.for_targets(targets.take)
    made = projections(weights, vectors, limit, per_head=per_head)
    if per_head:
        lengths = _head_norms(weights, vectors, limit)
    else:
        causal, ends = attention.is_causal and targets.are_all, targets.token_counts(weights)
        lengths = summed_norms(weights, vectors, limit, causal=causal, ends=ends)
    whole = lengths.sum(-1).clamp_min(torch.finfo(weights.dtype).tiny)
    return LayerScores(
        made.shares,
        {"uncancelled": made.squares.sqrt() / whole},
        {"uncancelled": ("head", "target") if per_head else ("target",)},
    )


def _head_norms(
    weights: Float[Tensor, "batch head target source"], vectors: Vectors, limit: int
) -> Float[Tensor, "batch head target source"]:
    """|A_hij f_hj|."""
    if vectors.gate is None:
        return weights * head_lengths(vectors, weights)[:, :, None]
    heads = range(weights.shape[1])
    return torch.stack([summed_norms(weights[:, [h]], vectors.head(h), limit) for h in heads], 1)
