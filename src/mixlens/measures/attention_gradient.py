"""Attention weights times their gradients: how much each attention link supports one output.

Chefer, Gur, Wolf 2021, Generic Attention-model Explainability for Interpreting Bi-Modal and
Encoder-Decoder Transformers (ICCV), equation 5: the mean over heads of (dy/dA * A)+, entry by
entry, with negative products clipped for each head. y is the raw logit of the explained output.
Their relevance is the rollout R_l = R_(l-1) + A_l R_(l-1) of these maps, not normalised, which
`rollout()` computes. `mixlens.maps.relevance` has their rules for encoder and decoder. The older
variant with layer-wise relevance propagation instead of A is not included.

In the last layer only the explained token has a gradient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixlens.contracts import Facts, Request, Scores, Spec, by_layer
from mixlens.replay.attention_gradients import projection_gradients, weight_gradients

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording
    from mixlens.replay.explained_output import Explained

SPEC = Spec(
    summary="attention weights times the gradient of one output with respect to them, if positive",
    citation=(
        "Chefer et al. (2021), Generic Attention-model Explainability for Interpreting Bi-Modal and"
        " Encoder-Decoder Transformers, ICCV, eq. 5"
    ),
    use_when=(
        "for maps of one prediction: which attention links support it, layer by layer and rolled"
        " out"
    ),
    cost="one forward and one backward pass",
    facts=Facts(),
    splits="projection",
    per_head=True,
    explains_output=True,
    explains_embedding=True,
    explains_by_default="logit",
    rollout_normalised=False,
    rollout_adds_identity=True,
    blind_spots=(
        "follows attention links only, weighted by the effect of each weight on the output. Links"
        " with a negative product are dropped, and the residual stream counts as a full identity."
        " An MLP lookup has the same slope for all its inputs, decisive or not. A chain of"
        " intermediate tokens ranks above the original source"
    ),
    memory=lambda sizes: max(sizes.graph, 2 * sizes.heads * sizes.targets**2),
    rounding=3e-5,
    half_precision=None,
)


def score_model(recording: Recording, request: Request, output: Explained) -> Scores:
    """Return the products per head, or their mean over heads."""
    gradients = projection_gradients(recording, request.site, request.kind, output)
    layers, wanted = [], request.chosen(recording)
    for index, (_, site) in zip(request.layers, request.sites(recording), strict=True):
        links = (weight_gradients(site, gradients[index]) * site.weights).clamp_min(0)
        links = wanted.take(links, 2)
        layers.append(links if request.per_head else links.mean(1))
    return Scores(by_layer(layers))
