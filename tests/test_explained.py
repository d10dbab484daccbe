"""Resolve the explained word or class, and raise if there is none."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import mixlens
from mixlens import Lens
from mixlens.errors import (
    InvalidInput,
    MissingTokenizer,
    NonFiniteActivations,
    UnsupportedModel,
)
from mixlens.replay.explained_output import select_explained
from mixlens.text.vocabulary import word_id
from tests.conformance.zoo import built

TEXT = "The keys [MASK] here."


def test_a_word_is_the_token_that_measures_explain() -> None:
    for name, text in (("masked", "The keys [MASK] here."), ("causal", "The keys")):
        lens = Lens.bundled(name)
        number = word_id(lens.tokenizer, "are", len(lens.tokenizer))
        assert lens.tokenizer.decode([number]).strip() == "are"
        assert select_explained(lens.record(text), word="are").chosen.tolist() == [number]


def test_an_id_stands_for_itself_and_needs_no_tokenizer() -> None:
    assert word_id(None, 7, 8) == 7
    with pytest.raises(InvalidInput, match=r"Token id .* is out of range .0–7"):
        word_id(None, 8, 8)
    with pytest.raises(MissingTokenizer, match="The word 'are' needs"):
        word_id(None, "are", 8)


def test_a_word_of_several_tokens_is_refused() -> None:
    tokenizer = Lens.bundled().tokenizer
    with pytest.raises(InvalidInput, match="split into: "):
        word_id(tokenizer, "antidisestablishmentarianism", len(tokenizer))
    assert word_id(tokenizer, "[UNK]", len(tokenizer)) == tokenizer.unk_token_id


@pytest.mark.parametrize(
    ("ask", "advised"),
    [
        (lambda lens: lens.measure("gradient_norm", TEXT), True),
        (lambda lens: lens.measure("decompx_logit", TEXT), False),  # it takes apart logits alone
        (lambda lens: lens.predictions(TEXT), False),
    ],
)
def test_options_are_advised_where_they_exist(ask: Callable[[Lens], Any], advised: bool) -> None:
    whole = Lens.bundled()
    encoder = Lens(whole.model.get_submodule("bert"), whole.tokenizer)
    with pytest.raises(InvalidInput, match="a checkpoint with a head for words or classes") as said:
        ask(encoder)
    assert ("embedding" in str(said.value)) is advised


def test_predictions_are_of_one_text() -> None:
    lens = Lens.bundled()
    with pytest.raises(InvalidInput, match="takes one text, got 2"):
        lens.predictions([TEXT, TEXT])  # type: ignore[arg-type]
    assert lens.predictions([TEXT]) == lens.predictions(TEXT)  # type: ignore[arg-type]


def test_a_recording_for_one_measure_has_no_output_to_explain() -> None:
    lens = Lens.bundled()
    recording = lens.measure_batch("alti", TEXT, device="cpu").recording
    words = r"has no model output.* lens\.record\(text\)"
    with pytest.raises(InvalidInput, match=words):
        mixlens.measure("gradient_norm", recording)
    with pytest.raises(InvalidInput, match=words):
        mixlens.measure("gradient_norm", recording, of="embedding", pooling="mean")


def test_a_damaged_head_predicts_nothing() -> None:
    lens = Lens.bundled("causal")
    norm: Any = lens.model.get_submodule("model.norm")
    with torch.no_grad():
        norm.weight[0] = float("nan")
    for ask in (lens.predictions, functools.partial(lens.measure, "gradient_norm")):
        with pytest.raises(NonFiniteActivations, match="logits are NaN"):
            ask("The keys")


def test_of_a_continued_prompt_a_produced_token_is_explained() -> None:
    lens = Lens(built("bart", head=True))
    made = lens.generate({"input_ids": [5, 6, 7]}, answer=[8, 9], site="decoder")
    with pytest.raises(InvalidInput, match=r"produced 2 tokens.* position .*\(0 to 1\)"):
        mixlens.measure("gradient_norm", made, site="encoder")
    for position, token in enumerate((8, 9)):
        maps = mixlens.measure("gradient_norm", made, site="encoder", position=position)
        assert isinstance(maps, mixlens.MixingMaps)
        assert maps.tokens == (f"{token} at {position}",)
        assert len(maps.source_tokens) == 3
    alone = lens.generate({"input_ids": [5, 6, 7]}, answer=[8], site="decoder")
    maps = mixlens.measure("gradient_norm", alone, site="encoder")
    assert isinstance(maps, mixlens.MixingMaps)
    assert maps.tokens == ("8 at 0",)


def test_a_site_that_does_is_named() -> None:
    lens = Lens(built("bart", head=True))
    made = lens.generate({"input_ids": [5, 6, 7]}, answer=[8, 9])
    with pytest.raises(UnsupportedModel, match=r"cross-attention. Pass site='encoder' or 'deco"):
        mixlens.measure("gradient_norm", made)
    with pytest.raises(
        InvalidInput,
        match=r"'encoder' does not read .* belong to the decoder. Choose 'decoder' or 'cross'",
    ):
        lens.generate({"input_ids": [5, 6, 7]}, answer=[8, 9], site="encoder")
