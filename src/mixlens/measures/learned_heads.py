"""Learned head weights: a weighted sum of another measure's scores over heads, sum_h theta_lh
phi_lhij.

Cohen-Wang et al. 2025, Learning to Attribute with Attention (AT2). The weights are learned so that
the sums predict how the log-odds of an answer change if sources are hidden (`answers.fit_heads`).
In the paper, phi are the attention weights. As an extension, mixlens supports every measure in
`contracts.head_weights.FEATURES`. To score a source for an answer, sum its scores over the layers
and average them over the positions that produce the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mixlens.contracts import Facts, LayerScores, Spec, Targets
from mixlens.contracts.head_weights import HeadWeights, load_head_weights
from mixlens.errors import InvalidInput, UnsupportedModel
from mixlens.measures import attention as raw_attention
from mixlens.measures import attention_norm, contribution_weights, flow_routes

if TYPE_CHECKING:
    from mixlens.recording.attention import Attention
    from mixlens.recording.layer import Layer

SPEC = Spec(
    summary="attention (or another score by head), summed over heads with learned weights",
    citation="Cohen-Wang et al. 2025, Learning to Attribute with Attention (AT2)",
    use_when=(
        "to rank the passages behind an answer at the price of one forward pass, after fitting the"
        " weights of the heads once for a model"
    ),
    cost="1 forward pass + that of the features",
    facts=Facts(signed=True),
    per_head=True,
    row_by_row=True,
    limitations=(
        "knows which heads matter on average over the prompts of the fit, not in this text"
    ),
    memory=lambda sizes: (
        5 * sizes.heads * sizes.targets**2
        + 3 * sizes.heads * sizes.targets * sizes.d_model
        + 2 * sizes.block
    ),
    half_precision=0.35,
    needs="weights",
)
_FEATURES: dict[str, Any] = {
    "attention": raw_attention,
    "attention_norm": attention_norm,
    "contribution_weights": contribution_weights,
    "flow_routes": flow_routes,
}


def score_layer(
    layer: Layer,
    attention: Attention,
    targets: Targets,
    *,
    per_head: bool = False,
    weights: str | None = None,
) -> LayerScores:
    """Return the weighted scores of each head, or their sum over heads.

    `weights` is a file written by `mixlens fit-heads`.
    """
    learned = _load_learned(weights)
    features = _features(learned.features, layer, attention, targets)
    head_weights = learned.of_layer(layer.structure.number, layer.module, int(features.shape[1]))
    theta = features.new_tensor(head_weights)
    values = features * theta[:, None, None]
    return LayerScores(values if per_head else values.sum(1), facts=Facts(signed=True))


def _load_learned(weights: Any) -> HeadWeights:
    if weights is None:
        raise InvalidInput(
            "learned_heads needs the weights of the heads. Pass weights=FILE, written by `mixlens"
            " fit-heads`."
        )
    return weights if isinstance(weights, HeadWeights) else load_head_weights(weights)


def _features(name: str, layer: Layer, attention: Attention, targets: Targets) -> Any:
    measure = _FEATURES[name]
    refusal = getattr(measure, "refusal", None)
    reason = None if refusal is None else refusal(layer.structure, attention.structure)
    if reason is not None:
        raise UnsupportedModel(f"learned_heads cannot use {name}: {reason}")
    return measure.score_layer(layer, attention, targets, per_head=True).values
