"""Tokenised words in plain spelling."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixlens.datasets.spelling import WRITTEN, join_words


@pytest.mark.parametrize(
    ("tokenised", "plain"),
    [
        ("role @-@ playing , is n't it ?", "role-playing, isn't it?"),
        ("1 @,@ 000 @.@ 5 %", "1,000.5%"),
        ("the king 's ( old ) hat .", "the king's (old) hat."),
        ("`` no , '' she said", '"no," she said'),
        ('a " b c " d " e "', 'a "b c" d "e"'),
        ("-LRB- so -RRB-", "(so)"),
        ("", ""),
    ],
)
def test_spelling(tokenised: str, plain: str) -> None:
    assert join_words(tokenised.split())[0] == plain


@given(
    st.lists(
        st.sampled_from(["a", "bc", ".", ",", "(", ")", "n't", '"', "``", "''", "@-@", "$", "é"])
    )
)
def test_every_word_is_at_its_span(words: list[str]) -> None:
    text, spans = join_words(words)
    assert [text[slice(*span)] for span in spans] == [WRITTEN.get(word, word) for word in words]
    assert text == text.strip()
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(spans))
