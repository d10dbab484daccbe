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

from mixlens.contracts import Facts, Request, Scores, Spec, by_layer
from mixlens.kernels.chunks import block_bytes
from mixlens.kernels.gram import summed_norms

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording

SPEC = Spec(
    summary="the norm of the vector that each source adds to each target through attention",
    citation=(
        "Kobayashi et al. 2020, Attention is Not Only a Weight: Analyzing Transformers with Vector"
        " Norms, eq. 5"
    ),
    use_when=(
        "to see past tokens with large weights and small value vectors ([CLS], [SEP], full stops);"
        " the residual stream is left out"
    ),
    cost="1 forward pass + head^2 n^2 per layer",
    facts=Facts(),
    splits="projection",
    per_head=True,
    row_by_row=True,
    within_blocks=True,
    blind_spots=(
        "sees empty and cancelled values, but not what norms and the feed-forward network do. Two"
        " values that cancel each other both count as sources. Without the residual stream, a"
        " go-between has nothing of its own. If a token looks only at the start token in some"
        " layer, all that it had is lost. A token that only steers attention, as in a count, brings"
        " no vector and gets nothing"
    ),
    memory=lambda sizes: sizes.heads * sizes.targets * sizes.d_model + sizes.block,
)


def scores(recording: Recording, request: Request) -> Scores:
    """Norms of each head's vectors, or of their sum."""
    limit = block_bytes(recording.memory_budget)
    lengths = recording.lengths[recording.structure.stack_of(request.site).name]
    layers = []
    for _, site in request.sites(recording):
        weights, vectors = request.take(site.weights, 2), site.vectors.for_targets(request.take)
        if request.per_head and vectors.gate is not None:
            heads = range(weights.shape[1])
            norms = [summed_norms(weights[:, [h]], vectors.head(h), limit) for h in heads]
            layers.append(torch.stack(norms, 1))
        elif request.per_head:
            layers.append(weights * torch.linalg.vector_norm(vectors.of(), dim=-1)[:, :, None])
        else:
            causal = site.is_causal and request.everything
            ends = request.token_counts(lengths, weights)
            layers.append(summed_norms(weights, vectors, limit, causal=causal, ends=ends))
    return Scores(by_layer(layers))
