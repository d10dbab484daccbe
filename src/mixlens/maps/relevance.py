"""Aggregate gradient-weighted attention through encoder-decoder and two-stream models, by the rules
of Chefer et al.

Chefer, Gur, Wolf 2021, Generic Attention-model Explainability, section 3.2. R_ab is the relevance
of the tokens of stream b for the tokens of stream a, and A is the map of one layer. Self-attention
of a stream s adds A R_ss to R_ss and A R_sq to R_sq. Attention of s to a stream q updates the
matrices as follows:

    R_sq += N(R_ss)^T A N(R_qq),   R_ss += A R_qs,   N(R) = (R - I) / row sums + I.

`relevance_through` is for models like DETR. In these models, the encoder never attends to the
decoder, so R_qs is zero. `relevance_between` is for models like LXMERT, in which each of two
streams attends to the other (co-attention). All additions in a block use the matrices from before
the block.

If a row of R - I is zero, the authors' code divides 0 by 0, which invalidates the whole addition.
In a causal decoder, this happens for every target except the last. In mixlens, a zero row stays
zero, which agrees with the authors' numbers wherever these are defined.
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
    """Return how much each token contributes to every decoder position.

    The first array contains the relevance of prefix tokens (R_qq), the second the relevance of
    source tokens (R_qi). The arguments are the maps of `attention_gradient` of the three
    attentions.
    """
    streams = _Streams.start(encoder.shape[-1], decoder.shape[-1]).attend(*encoder).swap()
    for links, to_encoder in zip(decoder, cross, strict=True):
        streams = streams.attend(links).looking(to_encoder)
    return streams.own, streams.across


def relevance_between(
    text: Float[np.ndarray, "depth target target"],
    image: Float[np.ndarray, "height source source"],
    co_attention: Sequence[CoAttention],
) -> tuple[Float[np.ndarray, "target target"], Float[np.ndarray, "target source"]]:
    """Return how much each text token and each image patch contributes to every token of the text.

    The first array contains the relevance of text tokens (R_tt), the second the relevance of image
    patches (R_ti). The arguments are maps of `attention_gradient`: `text` and `image` for the
    self-attention layers of each stream, and `co_attention` for the blocks in which the streams
    attend to each other.
    """
    streams = _Streams.start(text.shape[-1], image.shape[-1])
    streams = streams.attend(*text).swap().attend(*image).swap()
    for block in co_attention:
        one, other = streams.looking(block.to_image), streams.swap().looking(block.to_text)
        streams = _Streams(one.own, other.own, one.across, other.across)
        streams = streams.attend(block.text).swap().attend(block.image).swap()
    return streams.own, streams.across


@dataclass(frozen=True, kw_only=True)
class CoAttention:
    """Maps of a co-attention block: text and image attend to each other, then each to itself."""

    to_image: Float[np.ndarray, "target source"]
    to_text: Float[np.ndarray, "source target"]
    text: Float[np.ndarray, "target target"]
    image: Float[np.ndarray, "source source"]


@dataclass(frozen=True)
class _Streams:
    """The relevance matrices R_ss, R_qq, R_sq and R_qs of two streams s and q."""

    own: np.ndarray
    other: np.ndarray
    across: np.ndarray
    back: np.ndarray

    @classmethod
    def start(cls, first: int, second: int) -> _Streams:
        return cls(
            np.eye(first), np.eye(second), np.zeros((first, second)), np.zeros((second, first))
        )

    def swap(self) -> _Streams:
        """Return the matrices with the roles of the streams s and q swapped."""
        return _Streams(self.other, self.own, self.back, self.across)

    def attend(self, *maps: np.ndarray) -> _Streams:
        """Return the matrices after the self-attention layers of stream s, given the map of each
        layer.
        """
        own_stream, across = self.own, self.across
        for links in maps:
            own_stream, across = own_stream + links @ own_stream, across + links @ across
        return replace(self, own=own_stream, across=across)

    def looking(self, links: np.ndarray) -> _Streams:
        """Return the matrices after a layer in which stream s attends to stream q."""
        across = self.across + _balanced(self.own).T @ links @ _balanced(self.other)
        return replace(self, own=self.own + links @ self.back, across=across)


def _balanced(relevance: Float[np.ndarray, "token token"]) -> Float[np.ndarray, "token token"]:
    """Return N(R): the rows of R - I are divided by their sums, then I is added.

    Relevance from other tokens then has the same total weight as the token itself.
    """
    identity = np.eye(len(relevance))
    gathered: np.ndarray = row_normalised(relevance - identity) + identity
    return gathered
