"""Raw attention: the weight A_ij of source j for target i, after softmax, masks, soft-caps and
sinks.

The layer's map is the mean over heads, as in attention rollout (Abnar & Zuidema 2020,
https://aclanthology.org/2020.acl-main.385). In a model with attention sinks (a column that is
dropped after the softmax), the weights of a target sum to less than one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixlens.contracts import Facts, LayerScores, SpanRule, Spec, Targets

if TYPE_CHECKING:
    from mixlens.recording.attention import Attention
    from mixlens.recording.layer import Layer

SPEC = Spec(
    summary="how much each token attends to each other token: the raw attention weights",
    citation=(
        "Abnar & Zuidema 2020, Quantifying Attention Flow in Transformers, eq. 1 (rollout); Vaswani"
        " et al. 2017 (weights)"
    ),
    use_when=(
        "as a baseline; it ignores the value vectors, the residual stream and everything after them"
    ),
    cost="1 forward pass",
    facts=Facts(rows_sum_to_one=True),
    per_head=True,
    rollout_residual=0.5,
    row_by_row=True,
    within_blocks=True,
    limitations=(
        "shows where a head attends, not which vectors it adds. The identity in the rollout gives"
        " an intermediate token the same score as the source, and after several hops a higher one"
    ),
    memory=lambda sizes: sizes.targets**2,
)

SPAN = SpanRule(
    adds_up=True,
    refused={"joint": "a weight is a number, and there are no vectors of the targets to stack"},
)


def score_layer(
    layer: Layer, attention: Attention, targets: Targets, *, per_head: bool = False
) -> LayerScores:
    """Return the weights of each head, or their mean."""
    weights = targets.take(attention.weights, 2)
    return LayerScores(
        weights.clone() if per_head else weights.mean(1),
        facts=Facts(rows_sum_to_one=attention.structure.rows_sum_to_one),  # a sink takes a part
    )
