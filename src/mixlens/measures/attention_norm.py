"""The norm of each source's vector: ||A_ij f(x_j)|| per head, ||sum_h A^h_ij f^h(x_j)|| for a
layer.

Kobayashi et al. 2020, Attention is Not Only a Weight
(https://aclanthology.org/2020.emnlp-main.574), eq. 3-5. f is the value vector, including its bias,
times the head's part of the output projection. The bias of the projection is not assigned to any
source. For a layer's map, the vectors are summed over the heads before the norm is taken. The sum
is never stored (see `kernels.gram`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mixlens.contracts import Facts, LayerScores, SpanRule, Spec, Targets
from mixlens.kernels.chunks import block_bytes
from mixlens.kernels.gram import add_squares, head_norms, part_norms, summed_norms, take_roots

if TYPE_CHECKING:
    from torch import Tensor

    from mixlens.kernels.decomposition import Decomposition
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
    limitations=(
        "accounts for values that are zero or cancel each other, but not for norms and the MLP."
        " Two values that cancel both count as sources. Without the residual stream, an"
        " intermediate token has no content of its own. If a token attends only to the start token"
        " in some layer, its earlier content is lost. A token that only changes the attention"
        " weights, as in a counting program, adds no vector and gets a score of zero"
    ),
    memory=lambda sizes: sizes.heads * sizes.targets * sizes.d_model + sizes.block,
)


def score_layer(
    layer: Layer, attention: Attention, targets: Targets, *, per_head: bool = False
) -> LayerScores:
    """Return the norms of each head's vectors, or of their sum."""
    parts = _split(layer, attention, targets)
    weights, vectors, limit = parts.weights, parts.vectors, block_bytes(layer.memory_budget)
    if per_head:
        return LayerScores(head_norms(weights, vectors, limit))
    return LayerScores(summed_norms(weights, vectors, limit, causal=parts.causal, ends=parts.ends))


def _split(
    layer: Layer, attention: Attention, targets: Targets, *, per_head: bool = False
) -> Decomposition:
    return attention.written_parts(targets, own_channels=True)


def _weigh(parts: Decomposition, budget: int, *, per_head: bool = False) -> Mapping[str, Tensor]:
    limit = block_bytes(budget)
    if not per_head:
        return add_squares(part_norms(parts, limit))
    norms = head_norms(parts.weights, parts.vectors, limit)
    return add_squares(norms * parts.scale.abs()[:, None, :, None])


def _score(squares: Mapping[str, Tensor], *, per_head: bool = False) -> LayerScores:
    return LayerScores(take_roots(squares))


SPAN = SpanRule(split=_split, weigh=_weigh, score=_score)
