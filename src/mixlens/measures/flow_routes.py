"""Information flow routes: what part of each token's state comes through which attention edge.

Ferrando & Voita 2024, Information Flow Routes: Automatically Interpreting Language Models at Scale
(EMNLP). `mixlens.replay.route_shares` says what a share is, and where this goes beyond the
authors. The map of a layer has the shares of all heads added up, and the share of the residual
stream on the diagonal. `mixlens.maps.routes` finds the route of one target.

`variant="released"` takes shares as the authors' code does: 1e-6 is added to every difference,
every summand counts 1e-5 at least, and sources that a target cannot see are summands too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from mixlens.contracts import AttentionKind, Facts, LayerScores, Spec, Targets
from mixlens.replay.route_shares import RouteRules, attention_shares, feed_forward_shares, no_routes

if TYPE_CHECKING:
    from mixlens.recording.attention import Attention
    from mixlens.recording.layer import Layer
    from mixlens.structure.layer_structure import AttentionStructure, LayerStructure

SPEC = Spec(
    summary=(
        "the normalised score of each attention edge, head by head, in the attention block's"
        " output, in the L1 norm"
    ),
    citation=(
        "Ferrando & Voita (2024), Information Flow Routes: Automatically Interpreting Language"
        " Models at Scale, EMNLP"
    ),
    use_when=(
        "to see which heads, MLPs and tokens contribute to a state, as a graph, without choosing"
        " an output"
    ),
    cost="1 forward pass + a few times alti",
    facts=Facts(rows_sum_to_one=True, residual_included=True),
    splits="block",
    sites=(AttentionKind.SELF,),
    per_head=True,
    row_by_row=True,
    blind_spots=(
        "weighs the vector of each head by how far it points in the direction of the sum. The"
        " scores are normalised within one block and do not see that the MLP erases a source. A"
        " chain of intermediate tokens ranks above the original source. A token that only changes"
        " the attention weights, as in a counting program, adds no vector and gets a score of zero"
    ),
    memory=lambda sizes: (
        5 * sizes.heads * sizes.targets**2
        + 3 * sizes.heads * sizes.targets * sizes.d_model
        + 2 * sizes.block
    ),
    # Differences of L1 norms are clipped at zero: if they nearly cancel, half precision decides on
    # which side they fall.
    half_precision=0.35,
)


def refusal(layer: LayerStructure, site: AttentionStructure) -> str | None:
    """Why a layer of this structure has no such shares."""
    return no_routes(layer, site)


@torch.no_grad()
def score_layer(
    layer: Layer,
    attention: Attention,
    targets: Targets,
    *,
    per_head: bool = False,
    value_bias: bool = False,
    variant: str = "paper",
) -> LayerScores:
    """`value_bias`: the bias of the values belongs to the sources; `variant`: paper or released."""
    rules = RouteRules.of(value_bias, variant)
    shares = attention_shares(layer, attention, targets, rules)
    batch, _, count, _ = attention.weights.shape
    positions = targets.at(batch, count, attention.weights.device)
    feed_forward, stream = feed_forward_shares(layer, attention, targets, rules)
    extras = {
        "head_share": shares.heads.sum(-1),
        "residual_share": shares.residual,
        "feed_forward_share": feed_forward,
        "feed_forward_residual_share": stream,
    }
    dims = {"head_share": ("head", "target")}
    return LayerScores(
        shares.heads if per_head else shares.merged(positions),
        extras,
        {key: dims.get(key, ("target",)) for key in extras},
        facts=Facts() if per_head else None,
    )
