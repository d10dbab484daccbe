"""ALTI through encoder and decoder: how much each source token and each token of the target prefix
contribute to every prediction.

Ferrando et al. 2022, Towards Opening the Black Box of Neural Machine Translation
(https://aclanthology.org/2022.emnlp-main.599), section 3. In a decoder layer, ALTI splits the
output of the cross-attention block between the encoder's tokens (C) and the block's residual stream
(r). It then splits the residual stream between the tokens of the prefix (S), by the self-attention
block. A layer's output therefore consists of C from the encoder and diag(r) S from the prefix in
the layer below. The contributions are computed by a recursion over layers:

    source_l = C_l E + diag(r_l) S_l source_{l-1},      prefix_l = diag(r_l) S_l prefix_{l-1},

Here E is the encoder's rollout, source_0 is zero and prefix_0 is the identity. The rows of [source,
prefix] sum to one. mixlens divides them by their sum after each layer, so that rounding errors do
not accumulate.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from mixlens.contracts import Facts, Request, Scores
from mixlens.errors import UnsupportedModel
from mixlens.maps.mixing_maps import MixingMaps
from mixlens.maps.provenance import model_name
from mixlens.maps.target_row import Row
from mixlens.measures import alti
from mixlens.recording.recording import score_layers
from mixlens.text.tokens import Segment, TokenRow

if TYPE_CHECKING:
    import pandas as pd

    from mixlens.recording.recording import Recording


@dataclass(frozen=True, eq=False, repr=False)
class SourceAndPrefix:
    """Contributions of source tokens and prefix tokens to the output of each decoder layer.

    Rows are decoder positions. Columns are the tokens of the source, followed by the tokens of the
    target prefix.
    """

    scores: Float[np.ndarray, "layer target column"]
    source: TokenRow
    prefix: TokenRow
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def from_source(self) -> Float[np.ndarray, "layer target source"]:
        """Return the scores of the source tokens."""
        return self.scores[..., : len(self.source)]

    @property
    def from_prefix(self) -> Float[np.ndarray, "layer target prefix"]:
        """Return the scores of the target prefix."""
        return self.scores[..., len(self.source) :]

    @property
    def source_share(self) -> Float[np.ndarray, "layer target"]:
        """Return the total contribution of the source text to each position."""
        share: np.ndarray = self.from_source.sum(-1)
        return share

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the labels of the columns."""
        return (*self.source.labels, *self.prefix.labels)

    @cached_property
    def maps(self) -> MixingMaps:
        """Return the contributions as `MixingMaps`, whose sources are the source tokens and then
        the prefix tokens.
        """
        return MixingMaps.of(
            self.scores,
            self.prefix,
            _one_after_the_other(self.source, self.prefix),
            measure="alti_through",
            facts=Facts(rows_sum_to_one=True, reaches_input=True, same_tokens=False),
            provenance=self.provenance,
        )

    def row(self, target: int | str) -> Row:
        """Return the scores of one decoder position. See `MixingMaps.row`."""
        return self.maps.row(target)

    def words(self, sources: str = "sum", targets: str = "mean") -> MixingMaps:
        """Return maps with sub-words merged into words. See `MixingMaps.words`."""
        return self.maps.words(sources, targets)

    def to_dataframe(self) -> pd.DataFrame:
        """Return a table with one row per score. See `MixingMaps.to_dataframe`."""
        return self.maps.to_dataframe()

    def to_html(self, path: str | os.PathLike[str], *others: MixingMaps, **options: Any) -> None:
        """Write an HTML page with the source and the prefix. See `MixingMaps.to_html`."""
        self.maps.to_html(path, *others, **options)

    def _repr_html_(self) -> str:
        return self.maps._repr_html_()

    def __repr__(self) -> str:
        layers, targets, _ = self.scores.shape
        return (
            f"<SourceAndPrefix: {layers} layers × {targets} targets × ({len(self.source)} sources +"
            f" {len(self.prefix)} of the prefix)>"
        )


def _one_after_the_other(first: TokenRow, second: TokenRow) -> TokenRow:
    """Concatenate two token sequences, with a line break between their texts."""
    labels = (*first.labels, *second.labels)
    special = [tokens.special or (False,) * len(tokens) for tokens in (first, second)]
    both = (*special[0], *special[1])
    sides = (Segment("source", 0, len(first)), Segment("prefix", len(first), len(labels)))
    if first.text is None or second.text is None or not (first.offsets and second.offsets):
        return TokenRow(labels, special=both, segments=sides)
    start = len(first.text) + 1
    second_offsets = tuple((a + start, b + start) if b > a else (0, 0) for a, b in second.offsets)
    text, places = f"{first.text}\n{second.text}", (*first.offsets, *second_offsets)
    return TokenRow(labels, text, places, both, sides)


def alti_through(recording: Recording, *, variant: str = "paper") -> list[SourceAndPrefix]:
    """Compute how much the source and the target prefix contribute to every decoder position.

    ALTI contributions are aggregated through the encoder and the decoder. The result has one entry
    for each text of the recording.
    """
    sites = recording.structure.sites
    if not {"encoder", "decoder", "cross"} <= set(sites):
        raise UnsupportedModel(
            f"This model has only these attentions: {', '.join(sites)}. Contributions through "
            "encoder and decoder need encoder, decoder and cross. Use an encoder-decoder model."
        )
    maps = {site: _scores(recording, site, variant) for site in ("encoder", "decoder", "cross")}
    about = {
        "name": model_name(recording.model),
        "summary": "how much the source and the target prefix contribute to each position",
        "citation": (
            "Ferrando et al. (2022), Towards Opening the Black Box of Neural Machine Translation,"
            " EMNLP, section 3"
        ),
        "options": {"variant": variant},
    }
    return [_row(recording, maps, text, about) for text in range(recording.batch)]


def _scores(recording: Recording, site: str, variant: str) -> Scores:
    request = Request.resolved(recording, site=site, layers=None, targets=None, per_head=False)
    score = functools.partial(alti.score_layer, variant=variant)
    return score_layers({"alti": score}, recording, request)["alti"]


def _row(
    recording: Recording, maps: dict[str, Scores], text: int, about: Mapping[str, Any]
) -> SourceAndPrefix:
    source, prefix = (
        recording.target_tokens("encoder", text),
        recording.target_tokens("decoder", text),
    )
    n, m = len(source), len(prefix)
    encoder = maps["encoder"].values[:, text, :n, :n].double().cpu().numpy()
    decoder = maps["decoder"].values[:, text, :m, :m].double().cpu().numpy()
    cross = maps["cross"].values[:, text, :m, :n].double().cpu().numpy()
    residual = maps["cross"].extras["residual_share"][:, text, :m].double().cpu().numpy()
    return SourceAndPrefix(through(encoder, decoder, cross, residual), source, prefix, about)


def through(
    encoder: Float[np.ndarray, "depth source source"],
    decoder: Float[np.ndarray, "layer target target"],
    cross: Float[np.ndarray, "layer target source"],
    residual: Float[np.ndarray, "layer target"],
) -> Float[np.ndarray, "layer target column"]:
    """Aggregate contributions through encoder and decoder, by the recursion in the module
    docstring.

    The rows of `encoder` and `decoder` sum to one. Each row of `cross` and the corresponding entry
    of `residual` together sum to one.
    """
    rolled = np.eye(encoder.shape[-1])
    for layer in encoder:
        rolled = layer @ rolled
    sources, targets = cross.shape[2], cross.shape[1]
    below = np.hstack([np.zeros((targets, sources)), np.eye(targets)])
    states = []
    for self_scores, to_encoder, share in zip(decoder, cross, residual, strict=True):
        mixed = (share[:, None] * self_scores) @ below
        mixed[:, :sources] += to_encoder @ rolled
        total = mixed.sum(-1, keepdims=True)
        below = np.divide(mixed, total, out=np.zeros_like(mixed), where=total > 0)
        states.append(below)
    return np.stack(states)
