"""Which token a word is."""

from __future__ import annotations

import pytest

from mixlens import Lens
from mixlens.errors import InvalidInput, MissingTokenizer
from mixlens.explained import explained
from mixlens.vocabulary import word_id


def test_a_word_is_the_token_that_measures_explain() -> None:
    for name, text in (("masked", "The keys [MASK] here."), ("causal", "The keys")):
        lens = Lens.bundled(name)
        number = word_id(lens.tokenizer, "are", len(lens.tokenizer))
        assert lens.tokenizer.decode([number]).strip() == "are"
        assert explained(lens.record(text), word="are").chosen.tolist() == [number]


def test_an_id_stands_for_itself_and_needs_no_tokenizer() -> None:
    assert word_id(None, 7, 8) == 7
    with pytest.raises(InvalidInput, match="outside the model's 8 outputs"):
        word_id(None, 8, 8)
    with pytest.raises(MissingTokenizer, match="'are' needs a tokenizer"):
        word_id(None, "are", 8)


def test_a_word_of_several_tokens_is_refused() -> None:
    tokenizer = Lens.bundled().tokenizer
    with pytest.raises(InvalidInput, match="split into: "):
        word_id(tokenizer, "antidisestablishmentarianism", len(tokenizer))
    assert word_id(tokenizer, "[UNK]", len(tokenizer)) == tokenizer.unk_token_id
