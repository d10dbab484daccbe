"""Relevance through encoder and decoder: gradient-weighted attention joined by its authors' rules.

Chefer, Gur, Wolf 2021, Generic Attention-model Explainability, section 3.2, for models like DETR:
the encoder's maps give R_ii, the decoder's own R_qq, and cross-attention adds

    R_qi += N(R_qq)^T A N(R_ii),        N(R) = (R - I) / row sums + I.

Their code divides 0 by 0 if a row of R - I is empty, and the whole addition is lost: in a causal
decoder for every target but the last. Here an empty row stays empty, which is their number wherever
theirs is defined.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from mixlens.aggregation.rollout import row_normalised


def relevance_through(
    encoder: Float[np.ndarray, "depth source source"],
    decoder: Float[np.ndarray, "layer target target"],
    cross: Float[np.ndarray, "layer target source"],
) -> tuple[Float[np.ndarray, "target target"], Float[np.ndarray, "target source"]]:
    """How much of each token of the prefix (R_qq) and of the source (R_qi) is in every decoder
    position, from the maps of `attention_gradient` at the three sites.
    """
    sources = np.eye(encoder.shape[-1])
    for links in encoder:
        sources = sources + links @ sources
    own = np.eye(decoder.shape[-1])
    across = np.zeros((decoder.shape[-1], encoder.shape[-1]))
    for links, to_encoder in zip(decoder, cross, strict=True):
        own, across = own + links @ own, across + links @ across
        across = across + _balanced(own).T @ to_encoder @ _balanced(sources)
    return own, across


def _balanced(relevance: Float[np.ndarray, "token token"]) -> Float[np.ndarray, "token token"]:
    """N: what was gathered weighs as much as the token itself."""
    identity = np.eye(len(relevance))
    gathered: np.ndarray = row_normalised(relevance - identity) + identity
    return gathered
