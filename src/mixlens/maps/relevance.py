"""Relevance through several streams: gradient-weighted attention, aggregated by its authors' rules.

Chefer, Gur, Wolf 2021, Generic Attention-model Explainability, section 3.2. Self-attention of a
stream s adds A R_ss to R_ss and A R_sq to R_sq. Attention of s to a stream q adds

    R_sq += N(R_ss)^T A N(R_qq),   R_ss += A R_qs,   N(R) = (R - I) / row sums + I.

An encoder never attends to its decoder, so that R_qs is zero there (`relevance_through`, for models
like DETR). In co-attention each of two streams attends to the other (`relevance_between`, for
models like LXMERT), and all additions of a block use the matrices before it.

The authors' code divides 0 by 0 if a row of R - I is empty, and the whole addition is lost: in a
causal decoder for every target but the last. Here an empty row stays empty, which agrees with the
authors' numbers wherever theirs are defined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from mixlens.maps.rollout import row_normalised


def relevance_through(
    encoder: Float[np.ndarray, "depth source source"],
    decoder: Float[np.ndarray, "layer target target"],
    cross: Float[np.ndarray, "layer target source"],
) -> tuple[Float[np.ndarray, "target target"], Float[np.ndarray, "target source"]]:
    """Return how much each token of the prefix (R_qq) and of the source (R_qi) contributes to every
    decoder position, from the maps of `attention_gradient` at the three sites.
    """
    streams = _Streams.unmixed(encoder.shape[-1], decoder.shape[-1]).attended(*encoder).turned()
    for links, to_encoder in zip(decoder, cross, strict=True):
        streams = streams.attended(links).looking(to_encoder)
    return streams.own, streams.across


def relevance_between(
    text: Float[np.ndarray, "depth target target"],
    image: Float[np.ndarray, "height source source"],
    co_attention: Sequence[CoAttention],
) -> tuple[Float[np.ndarray, "target target"], Float[np.ndarray, "target source"]]:
    """Return how much each token (R_tt) and each image patch (R_ti) contributes to every token of
    the text, from the maps of `attention_gradient`: those of each stream alone, then block by
    block.
    """
    streams = _Streams.unmixed(text.shape[-1], image.shape[-1])
    streams = streams.attended(*text).turned().attended(*image).turned()
    for block in co_attention:
        one, other = streams.looking(block.to_image), streams.turned().looking(block.to_text)
        streams = _Streams(one.own, other.own, one.across, other.across)
        streams = streams.attended(block.text).turned().attended(block.image).turned()
    return streams.own, streams.across


@dataclass(frozen=True, kw_only=True)
class CoAttention:
    """The maps of a block in which text and image attend to each other, then to themselves."""

    to_image: Float[np.ndarray, "target source"]
    to_text: Float[np.ndarray, "source target"]
    text: Float[np.ndarray, "target target"]
    image: Float[np.ndarray, "source source"]


@dataclass(frozen=True)
class _Streams:
    """R_ss, R_qq, R_sq and R_qs, from the view of the stream s."""

    own: np.ndarray
    other: np.ndarray
    across: np.ndarray
    back: np.ndarray

    @classmethod
    def unmixed(cls, first: int, second: int) -> _Streams:
        return cls(
            np.eye(first), np.eye(second), np.zeros((first, second)), np.zeros((second, first))
        )

    def turned(self) -> _Streams:
        """Return the matrices from the view of the other stream."""
        return _Streams(self.other, self.own, self.back, self.across)

    def attended(self, *maps: np.ndarray) -> _Streams:
        """Return the matrices after self-attention of s, layer by layer."""
        own, across = self.own, self.across
        for links in maps:
            own, across = own + links @ own, across + links @ across
        return replace(self, own=own, across=across)

    def looking(self, links: np.ndarray) -> _Streams:
        """Return the matrices after attention of s to q."""
        across = self.across + _balanced(self.own).T @ links @ _balanced(self.other)
        return replace(self, own=self.own + links @ self.back, across=across)


def _balanced(relevance: Float[np.ndarray, "token token"]) -> Float[np.ndarray, "token token"]:
    """Return N(R), in which the collected relevance has the same weight as the token itself."""
    identity = np.eye(len(relevance))
    gathered: np.ndarray = row_normalised(relevance - identity) + identity
    return gathered
