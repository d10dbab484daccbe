"""Word links from cross-attention maps."""

from __future__ import annotations

import numpy as np
import pytest

from mixlens.errors import InvalidInput
from mixlens.maps.alignments import align_words
from mixlens.maps.mixing_maps import MixingMaps
from mixlens.text.tokens import TokenRow

SOURCE = TokenRow(("▁the", "▁old", "▁do", "gs", "</s>"), special=(False,) * 4 + (True,))
TARGET = TokenRow(("<s>", "▁les", "▁vieux", "▁chi", "ens"), special=(True,) + (False,) * 4)
SCORES = np.array(
    [
        [0.9, 0.1, 0.0, 0.0, 0.0],  # consumes <s>, produces les
        [0.1, 0.6, 0.2, 0.1, 0.0],  # consumes les
        [0.1, 0.5, 0.1, 0.3, 0.0],
        [0.0, 0.3, 0.2, 0.2, 0.3],  # chi: dogs by the sum of its pieces
        [0.0, 0.3, 0.2, 0.2, 0.3],
    ]
)


def test_links_of_each_setting() -> None:
    maps = MixingMaps.of(SCORES[None], TARGET, SOURCE)
    links = align_words(maps)
    assert links.source == ("the", "old", "dogs")
    assert links.target == ("les", "vieux", "chiens")
    assert links.links == ((1, 0), (1, 1), (2, 2))
    assert links.pharaoh() == "1-0 1-1 2-2"
    assert align_words(maps, setting="AWO").links == ((0, 0), (1, 1), (1, 2))


def test_the_end_mark_and_empty_rows_give_no_link() -> None:
    scores = SCORES.copy()
    scores[1] = [0, 0, 0, 0.4, 0.6]
    scores[2] = 0
    maps = MixingMaps.of(scores[None], TARGET, SOURCE)
    assert align_words(maps).links == ((2, 2),)


def test_refusals() -> None:
    maps = MixingMaps.of(SCORES[None], TARGET, SOURCE)
    for wrong, words in (
        (MixingMaps.of(np.ones((1, 5, 5)), SOURCE), "cross-attention maps"),
        (maps.at(targets=[1]), "of all targets"),
        (MixingMaps.of(SCORES[None, None], TARGET, SOURCE), "without heads"),
    ):
        with pytest.raises(InvalidInput, match=words):
            align_words(wrong)
    with pytest.raises(InvalidInput, match="Unknown setting 'AWU'"):
        align_words(maps, setting="AWU")
