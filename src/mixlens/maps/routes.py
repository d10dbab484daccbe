"""Find the information flow route of one target: the part of the network that computes its state,
as a graph.

Ferrando & Voita 2024, Information Flow Routes: Automatically Interpreting Language Models at Scale
(EMNLP). Nodes are tokens at four places in the model: `X0_t` is token t in the input, `A3_t` after
the attention of layer 3, `M3_t` in the MLP of layer 3, and `I3_t` in the output of layer 3. The
weight of an edge is the fraction that it contributes to the sum at its end
(`mixlens.replay.route_shares`). The search starts from the target's state after the last layer and
follows all edges above the threshold downwards. Attention is computed only for the tokens that the
search reaches.

By default, as in the paper, edges at or below the threshold are dropped separately for each head,
and the weights of the other edges are divided by their sum, so that the edges into a node sum to
one. (The released code divides the fractions of the MLP by a sum over all tokens. mixlens uses the
sum for the token itself.) With `renormalise=False`, the raw fraction of an edge, summed over heads,
is compared with the threshold. Weights are never multiplied along a path. In a layer with parallel
attention and MLP, the MLP reads the layer's input, so its edge starts there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch

from mixlens.contracts import AttentionKind, Targets
from mixlens.errors import InvalidInput, UnsupportedModel
from mixlens.maps.route_graph import BlockShare, Edge, HeadShare, Routes
from mixlens.measures import refusal
from mixlens.replay.route_shares import RouteRules, attention_shares, feed_forward_shares
from mixlens.text.tokens import position_of

if TYPE_CHECKING:
    from mixlens.recording.layer import Layer
    from mixlens.recording.recording import Recording


@torch.no_grad()
def routes(
    recording: Recording,
    target: int | str = -1,
    *,
    site: str | None = None,
    threshold: float = 0.04,
    renormalise: bool = True,
    value_bias: bool = False,
) -> Routes:
    """Return the information flow route of one target in a recorded text."""
    attention = recording.structure.site(site)
    if attention.kind is not AttentionKind.SELF or recording.batch != 1:
        raise InvalidInput(
            "A route needs one token and the self-attention of one text. Record one text and "
            "pass one target."
        )
    if not isinstance(threshold, (int, float)) or not 0 <= threshold < 1:
        raise InvalidInput(f"threshold={threshold} is out of range. Pass a fraction in [0, 1).")
    reason = refusal("flow_routes", recording.structure, attention.name)
    if reason is not None:
        raise UnsupportedModel(reason)
    attention.stack.require_every_layer("a route")
    target_tokens = recording.target_tokens(attention.name, 0)
    position = position_of(target, target_tokens, range(len(target_tokens)))
    search = _Search(
        recording=recording,
        site=attention.name,
        threshold=threshold,
        renormalise=renormalise,
        rules=RouteRules(value_bias),
    )
    layers = recording.layers(attention.name)
    reached = {position}
    for index in reversed(range(len(layers))):
        reached = search.below(index, layers[index], reached)
    return Routes(
        edges=tuple(search.edges),
        heads=tuple(search.heads),
        blocks=tuple(search.blocks),
        target=position,
        tokens=tuple(target_tokens.labels),
        layers=len(layers),
        threshold=threshold,
        renormalised=renormalise,
        rows=search.rows,
    )


@dataclass(kw_only=True)
class _Search:
    """The state of a route search, which proceeds from the last layer down to the input."""

    recording: Recording
    site: str
    threshold: float
    renormalise: bool
    rules: RouteRules
    edges: list[Edge] = field(default_factory=list)
    heads: list[HeadShare] = field(default_factory=list)
    blocks: list[BlockShare] = field(default_factory=list)
    rows: int = 0

    def below(self, index: int, layer: Layer, reached: Iterable[int]) -> set[int]:
        """Add the edges that lead to the reached tokens of one layer.

        Return the tokens of the layer below from which these edges start.
        """
        before = f"I{index - 1}" if index else "X0"
        parallel = layer.structure.sites[0].parallel
        inside, under = [], set()
        for token, added, stream in self._feed_forward(index, layer, sorted(reached)):
            if added > 0:
                start = before if parallel else f"A{index}"
                self.edges.append(Edge(f"{start}_{token}", f"M{index}_{token}", added))
                self.edges.append(Edge(f"M{index}_{token}", f"I{index}_{token}", added))
                if parallel:
                    under.add(token)
            if stream > 0:
                self.edges.append(Edge(f"A{index}_{token}", f"I{index}_{token}", stream))
            if stream > 0 or (added > 0 and not parallel):
                inside.append(token)
        for token, weights in self._attention(index, layer, inside):
            sources = np.flatnonzero(weights)
            under.update(sources.tolist())
            for source, weight in zip(sources.tolist(), weights[sources].tolist(), strict=True):
                self.edges.append(Edge(f"{before}_{source}", f"A{index}_{token}", weight))
        return under

    def _targets(self, tokens: list[int]) -> Targets:
        return Targets(
            positions=(tuple(tokens),),
            kind=AttentionKind.SELF,
            lengths=self.recording.lengths[self.recording.structure.stack_of(self.site).name],
            source_lengths=self.recording.source_lengths(self.site),
        )

    def _feed_forward(
        self, index: int, layer: Layer, tokens: list[int]
    ) -> list[tuple[int, float, float]]:
        """Return, for each token, the weights of the edges from the MLP and from the residual
        stream.

        The weight of a dropped edge is 0.
        """
        if not tokens:
            return []
        site, targets = layer.site(AttentionKind.SELF), self._targets(tokens)
        shares = torch.stack(feed_forward_shares(layer, site, targets, self.rules))[:, 0]
        for token, added in zip(tokens, shares[0].tolist(), strict=True):
            self.blocks.append(BlockShare(index, token, "feed_forward", added))
        pairs = self._keep_above(shares.T.cpu().double().numpy())
        return [(token, *pair) for token, pair in zip(tokens, pairs.tolist(), strict=True)]

    def _attention(
        self, index: int, layer: Layer, tokens: list[int]
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Return each token with the weights of the edges from all sources to this token.

        The weight of a dropped edge is 0.
        """
        if not tokens:
            return iter(())
        self.rows += len(tokens)
        site, targets = layer.site(AttentionKind.SELF), self._targets(tokens)
        shares = attention_shares(layer, site, targets, self.rules)
        heads = shares.heads[0].transpose(0, 1).cpu().double().numpy()  # [token, head, source]
        residual = shares.residual[0].cpu().double().numpy()
        self._describe(index, tokens, heads, residual)
        indices = np.arange(len(tokens))
        if self.renormalise:
            kept_shares = self._keep_above(
                np.column_stack([heads.reshape(len(tokens), -1), residual])
            )
            merged = kept_shares[:, :-1].reshape(heads.shape).sum(1)
            merged[indices, tokens] += kept_shares[:, -1]
        else:
            merged = heads.sum(1)
            merged[indices, tokens] += residual
            merged = self._keep_above(merged)
        return zip(tokens, merged, strict=True)

    def _describe(
        self, index: int, tokens: list[int], heads: np.ndarray, residual: np.ndarray
    ) -> None:
        by_head, active = heads.sum(-1), heads.max(-1) > self.threshold
        wholes = zip(tokens, by_head.sum(-1).tolist(), residual.tolist(), strict=True)
        for token, whole, residual_share in wholes:
            self.blocks.append(BlockShare(index, token, "attention", whole))
            self.blocks.append(BlockShare(index, token, "residual", residual_share))
        for token, shares, actives in zip(tokens, by_head.tolist(), active.tolist(), strict=True):
            pairs = enumerate(zip(shares, actives, strict=True))
            self.heads += [HeadShare(index, token, head, *pair) for head, pair in pairs]

    def _keep_above(self, shares: np.ndarray) -> np.ndarray:
        """Set the fractions at or below the threshold to zero.

        With `renormalise`, divide the others by their sum.
        """
        above = np.where(shares > self.threshold, shares, 0.0)
        if not self.renormalise:
            return above
        whole = above.sum(-1, keepdims=True)
        return above / np.where(whole > 0, whole, 1.0)
