"""Information flow routes: the fraction of each token's state that comes through each attention
edge.

Ferrando & Voita 2024, Information Flow Routes: Automatically Interpreting Language Models at Scale
(EMNLP). `mixlens.replay.route_shares` defines the fractions and extensions. The map of a layer is
the sum over heads, with the residual stream on the diagonal. `mixlens.maps.routes` finds the route
of one target.

`variant="released"` follows the authors' code: 1e-6 is added to every difference, every term counts
at least 1e-5, and sources that a target cannot see are included. Before normalisation, `threshold`
drops every term with a smaller L1 contribution: vectors of single heads, the MLP output, and the
residual stream that bypasses the MLP. The residual stream that bypasses the attention is never
dropped. FlashTrace (https://github.com/wbopan/flashtrace) uses the same threshold. The effect of
the threshold depends on the scale of the hidden states and on the weights of a span.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from mixlens.contracts import (
    AttentionKind,
    Facts,
    LayerScores,
    SpanRule,
    Spec,
    Targets,
    is_released,
)
from mixlens.errors import InvalidInput
from mixlens.kernels.contributions import l1_contribution
from mixlens.replay.route_shares import (
    AttentionShares,
    RouteRules,
    above,
    as_shares,
    attention_shares,
    feed_forward_parts,
    feed_forward_shares,
    no_routes,
    route_contributions,
    route_parts,
)

if TYPE_CHECKING:
    from torch import Tensor

    from mixlens.kernels.decomposition import Decomposition
    from mixlens.recording.attention import Attention
    from mixlens.recording.layer import Layer

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
    limitations=(
        "scores the vector of each head by how far it points in the direction of the sum. The"
        " scores are normalised within one block, so they do not show that the MLP erases a source."
        " If content is copied through several tokens, the intermediate tokens rank above the"
        " original source. A token that only changes the attention weights, as in a counting"
        " program, adds no vector and gets a score of zero"
    ),
    memory=lambda sizes: (
        5 * sizes.heads * sizes.targets**2
        + 3 * sizes.heads * sizes.targets * sizes.d_model
        + 2 * sizes.block
    ),
    # Differences of L1 norms are clipped at zero: if they nearly cancel, half precision decides
    # their sign.
    half_precision=0.35,
)

refusal = no_routes


@torch.no_grad()
def score_layer(
    layer: Layer,
    attention: Attention,
    targets: Targets,
    *,
    per_head: bool = False,
    value_bias: bool = False,
    variant: str = "paper",
    threshold: float = 0.0,
) -> LayerScores:
    """Return the fractions.

    `value_bias` assigns the bias of the value vectors to the sources; `variant` is "paper" or
    "released"; contributions below `threshold` are dropped.
    """
    rules = _rules(value_bias, variant, threshold)
    shares = attention_shares(layer, attention, targets, rules)
    batch, _, count, _ = attention.weights.shape
    positions = targets.at(batch, count, attention.weights.device)
    feed_forward, stream = feed_forward_shares(layer, attention, targets, rules)
    if per_head:
        return _with_extras(shares.heads, shares, feed_forward, stream, Facts())
    return _with_extras(shares.merge(positions), shares, feed_forward, stream, None)


def _rules(value_bias: bool, variant: str, threshold: float) -> RouteRules:
    """Return the rules for these options. Raise `InvalidInput` if they contradict each other."""
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not threshold >= 0:
        raise InvalidInput(f"threshold={threshold!r} is out of range. Pass 0 or more.")
    if threshold and is_released(variant):
        raise InvalidInput("variant='released' does not support a threshold. Use variant='paper'.")
    return RouteRules.of(value_bias, variant, threshold)


def _with_extras(
    values: Tensor,
    shares: AttentionShares,
    feed_forward: Tensor,
    stream: Tensor,
    facts: Facts | None,
) -> LayerScores:
    extras = {
        "head_share": shares.heads.sum(-1),
        "residual_share": shares.residual,
        "feed_forward_share": feed_forward,
        "feed_forward_residual_share": stream,
    }
    dims = {"head_share": ("head", "target")}
    return LayerScores(
        values,
        extras,
        {key: dims.get(key, ("target",)) for key in extras},
        facts=facts,
    )


def _split(
    layer: Layer,
    attention: Attention,
    targets: Targets,
    *,
    per_head: bool = False,
    value_bias: bool = False,
    variant: str = "paper",
    threshold: float = 0.0,
) -> Decomposition:
    rules = _rules(value_bias, variant, threshold)
    if rules.released:
        raise InvalidInput("variant='released' does not support spans. Use variant='paper'.")
    parts = route_parts(layer, attention, targets, rules)
    return replace(parts, beside=feed_forward_parts(layer, attention, targets))


def _weigh(
    parts: Decomposition,
    budget: int,
    *,
    per_head: bool = False,
    value_bias: bool = False,
    variant: str = "paper",
    threshold: float = 0.0,
) -> Mapping[str, Tensor]:
    heads, residual = route_contributions(parts, budget, RouteRules(value_bias))
    extras = {
        name: l1_contribution(parts.beside[name], parts.beside["output"])
        for name in ("added", "stream")
        if parts.beside
    }
    return {"heads": heads.transpose(1, 2), "residual": residual, **extras}


def _score(
    contributions: Mapping[str, Tensor],
    *,
    per_head: bool = False,
    value_bias: bool = False,
    variant: str = "paper",
    threshold: float = 0.0,
) -> LayerScores:
    """Return the scores of a span. The residual streams of its targets are not assigned to any
    source.
    """
    residual = contributions["residual"].clamp_min(0)
    heads = contributions["heads"].transpose(1, 2).clamp_min(0)
    shares = as_shares(above(heads, threshold), residual)
    added, stream = torch.zeros_like(residual), torch.ones_like(residual)
    if "added" in contributions:
        added, stream = (
            above(contributions[name].clamp_min(0), threshold) for name in ("added", "stream")
        )
    whole = (added + stream).clamp_min(torch.finfo(added.dtype).tiny)
    values = shares.heads if per_head else shares.heads.sum(1)
    return _with_extras(values, shares, added / whole, stream / whole, Facts())


SPAN = SpanRule(split=_split, weigh=_weigh, score=_score, long="sum")
