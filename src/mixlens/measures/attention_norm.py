"""The norm of what each source writes: ||A_ij f(x_j)|| per head, ||sum_h A^h_ij f^h(x_j)|| for a
layer.

Kobayashi et al. 2020, Attention is Not Only a Weight
(https://aclanthology.org/2020.emnlp-main.574), eq. 3-5. f is the value vector, its bias included,
times the head's part of the output projection; the projection's own bias belongs to no source. A
layer's map sums the heads first and takes the norm afterwards; the sum is never formed (see
`kernels.gram`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from mixlens.contracts import Facts, LayerScores, Spec, Targets
from mixlens.kernels.chunks import block_bytes
from mixlens.kernels.gram import summed_norms

if TYPE_CHECKING:
    from mixlens.recording.attention import Attention
    from mixlens.recording.layer import Layer

SPEC = Spec(
    summary="the norm of the vector that each source adds to each target through attention",
    citation=(
        "Kobayashi et al. 2020, Attention is Not Only a Weight: Analyzing Transformers with Vector"
        " Norms, eq. 5"
    ),
    use_when=(
        "to discount tokens with large weights and small value vectors ([CLS], [SEP], full stops);"
        " leaves out the residual stream"
    ),
    cost="1 forward pass + head^2 n^2 per layer",
    facts=Facts(),
    splits="projection",
    per_head=True,
    row_by_row=True,
    within_blocks=True,
    blind_spots=(
        "accounts for empty and cancelled values, but not for norms and the MLP. Two values that"
        " cancel both count as sources. Without the residual stream, an intermediate token has no"
        " content of its own. If a token attends only to the start token in some layer, its"
        " earlier content is lost. A token that only changes the attention weights, as in a"
        " counting program, adds no vector and gets a score of zero"
    ),
    memory=lambda sizes: sizes.heads * sizes.targets * sizes.d_model + sizes.block,
)


def score_layer(
    layer: Layer, attention: Attention, targets: Targets, *, per_head: bool = False
) -> LayerScores:
    """Return the norms of each head's vectors, or of their sum."""
    limit = block_bytes(layer.memory_budget)
    weights = targets.take(attention.weights, 2)
    vectors = attention.vectors.for_targets(targets.take)
    if per_head and vectors.gate is not None:
        heads = range(weights.shape[1])
        norms = [summed_norms(weights[:, [h]], vectors.head(h), limit) for h in heads]
        return LayerScores(torch.stack(norms, 1))
    if per_head:
        lengths = torch.linalg.vector_norm(vectors.of(), dim=-1)
        return LayerScores(weights * lengths[:, :, None])
    causal, ends = attention.is_causal and targets.are_all, targets.token_counts(weights)
    return LayerScores(summed_norms(weights, vectors, limit, causal=causal, ends=ends))
