"""Word alignments from cross-attention maps: which source word each word of the translation goes
back to, as Pharaoh links.

Each target word is linked to the source word with the largest score, after Kobayashi et al. (2020,
https://aclanthology.org/2020.emnlp-main.574), section 5. Scores of a source word are the sum over
its pieces, of a target word the mean over its pieces. A target word whose largest score is on a
special token (the end mark) has no link, and neither has one without any score. The paper chooses
the layer; see the evaluation `word_alignment` for how well each does on gold alignments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mixlens.errors import InvalidInput
from mixlens.maps.target_row import layer_index
from mixlens.text import words
from mixlens.text.tokens import TokenRow

if TYPE_CHECKING:
    from mixlens.maps.mixing_maps import MixingMaps

SETTINGS = ("AWI", "AWO")


@dataclass(frozen=True)
class WordAlignment:
    """Words of both sides and the links between them (source, target; from 0)."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    links: tuple[tuple[int, int], ...]

    def pharaoh(self) -> str:
        """One line such as "0-0 1-2": source and target word of each link, from 0."""
        return " ".join(f"{source}-{target}" for source, target in self.links)


def align_words(maps: MixingMaps, *, layer: int = -1, setting: str = "AWI") -> WordAlignment:
    """The links that one layer of cross-attention maps gives.

    `setting`: "AWI" reads the row of the step that consumes the target word, "AWO" of the step
    before it, which produces it.
    """
    if setting not in SETTINGS:
        raise InvalidInput(f"setting={setting!r}: choose one of {', '.join(SETTINGS)}")
    if maps.per_head:
        raise InvalidInput("links are made from whole layers: merge the heads, or choose one")
    if maps.source_row == maps.target_row or len(maps.target_positions) < len(maps.target_row):
        raise InvalidInput(
            "links need cross-attention maps of all targets: measure a pair of texts at the site"
            " cross, and name no targets"
        )
    scores = np.abs(maps.scores[layer_index(layer, maps.layers)])
    source_ranges, source = _words(maps.source_row)
    target_ranges, target = _words(maps.target_row)
    wide = words.merged(scores, [range(a, b) for a, b in source_ranges], -1, "sum")
    links = []
    for number, (start, stop) in enumerate(target_ranges[i] for i in target):
        back = 1 if setting == "AWO" else 0
        row = wide[max(0, start - back) : stop - back].mean(0)
        best = int(row.argmax())
        if row[best] > 0 and best in source:
            links.append((source.index(best), number))
    labels = [words.words(row)[1].labels for row in (maps.source_row, maps.target_row)]
    return WordAlignment(
        tuple(labels[0][i] for i in source),
        tuple(labels[1][i] for i in target),
        tuple(sorted(links)),
    )


def _words(row: TokenRow) -> tuple[list[words.Span], list[int]]:
    """The token ranges of all words, and which of them are words of the text."""
    ranges, merged = words.words(row)
    special = merged.special or (False,) * len(merged)
    return ranges, [i for i, mark in enumerate(special) if not mark]
