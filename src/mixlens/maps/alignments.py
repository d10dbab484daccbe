"""Derive word alignments from cross-attention maps: the source word of each word of a translation,
in Pharaoh format.

Each target word is linked to the source word with the largest score, after Kobayashi et al. (2020,
https://aclanthology.org/2020.emnlp-main.574), section 5. Scores are summed over the pieces of a
source word and averaged over the pieces of a target word. A target word has no link if all its
scores are zero, or if a special token (such as the end token) has the largest score. The paper
selects the best layer. The evaluation `word_alignment` scores each layer on gold alignments.
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
    """Word alignment between a text and its translation.

    A link is a pair of word indices (source, target).
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    links: tuple[tuple[int, int], ...]

    def pharaoh(self) -> str:
        """Return the links in Pharaoh format, such as "0-0 1-2" (source-target, word indices from
        0).
        """
        return " ".join(f"{source}-{target}" for source, target in self.links)


def align_words(maps: MixingMaps, *, layer: int = -1, setting: str = "AWI") -> WordAlignment:
    """Align words by one layer of cross-attention maps.

    With `setting="AWI"`, a target word gets the scores of the decoding step in which it is the
    input. With "AWO", it gets the scores of the previous step, which predicts the word.
    """
    if setting not in SETTINGS:
        raise InvalidInput(f"Unknown setting {setting!r}. Choose one of: {', '.join(SETTINGS)}.")
    if maps.per_head:
        raise InvalidInput(
            "Word alignments need maps without heads. Merge the heads, or select one."
        )
    if maps.source_row == maps.target_row or len(maps.target_positions) < len(maps.target_row):
        raise InvalidInput(
            "Word alignments need cross-attention maps of all targets. Measure a pair of texts "
            "at the cross-attention, without `targets`."
        )
    scores = np.abs(maps.scores[layer_index(layer, maps.layers)])
    source_ranges, source = _words(maps.source_row)
    target_ranges, target = _words(maps.target_row)
    wide = words.merge_groups(scores, [range(a, b) for a, b in source_ranges], -1, "sum")
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
    """Return the token ranges of all words, and the indices of words that are not special."""
    ranges, merged = words.words(row)
    special = merged.special or (False,) * len(merged)
    return ranges, [i for i, mark in enumerate(special) if not mark]
