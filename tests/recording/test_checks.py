"""Every input tensor is checked against the model and the others before anything runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import mixlens
from mixlens import Lens
from mixlens.text.input_checks import check_numbers, check_range, check_shapes
from mixlens.text.inputs import prepare_inputs
from mixlens.text.padding import real_tokens_first
from tests.conformance.zoo import ZOO, built, inputs

IDS = torch.arange(5, 15)[None]
ONES = torch.ones_like(IDS)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"input_ids": IDS, "attention_mask": ONES[:, :3]}, r"attention_mask has the shape \(1, 3"),
        ({"input_ids": IDS, "attention_mask": torch.ones(1, 12)}, r"\(1, 12\), but input_ids has"),
        ({"input_ids": IDS, "attention_mask": torch.ones(2, 10)}, "one number for each token"),
        ({"input_ids": IDS, "token_type_ids": ONES[:, :3]}, "token_type_ids has the shape"),
        ({"input_ids": IDS, "position_ids": ONES[:, :3]}, "position_ids has the shape"),
        ({"input_ids": IDS, "attention_mask": 2 * ONES}, "1 for tokens and 0 for padding"),
        ({"input_ids": IDS.float()}, "dtype float32. Pass integers .int64."),
        ({"input_ids": IDS.bool()}, "dtype bool"),
        ({"input_ids": IDS - 20}, "input_ids contains -15"),
        ({"input_ids": IDS + 90}, "token id 104 is outside the model's vocabulary of 96"),
        ({"input_ids": IDS, "token_type_ids": 7 * ONES}, "token types, of which there are 2"),
        ({"input_ids": IDS, "position_ids": 99 * ONES}, "table of positions, which has 64"),
        ({"input_ids": IDS, "position_ids": -ONES}, "position_ids contains -1"),
        ({"input_ids": torch.tensor(3)}, "the shape"),
        ({"input_ids": [["a", "b"]]}, "not a batch of numbers"),
        ({"inputs_embeds": torch.full((1, 4, 32), float("nan"))}, "inputs_embeds contains NaN"),
    ],
)
def test_unsupported_inputs_raise(given: dict[str, Any], words: str) -> None:
    with pytest.raises(mixlens.InvalidInput, match=words):
        Lens(built("bert")).record(given)


def test_the_decoder_is_checked_too() -> None:
    lens = Lens(built("marian"))
    good = inputs("marian")
    ids = good["decoder_input_ids"]
    for wrong, words in (
        ({"decoder_attention_mask": torch.ones(2, 3)}, "decoder_attention_mask has the shape"),
        ({"decoder_input_ids": ids[:1].repeat(3, 1)}, "input_ids has 2 texts"),
        ({"decoder_input_ids": ids + 96}, "outside the model's vocabulary of 96"),
        ({"decoder_input_ids": ids.float()}, "decoder_input_ids has dtype"),
    ):
        with pytest.raises(mixlens.InvalidInput, match=words):
            lens.record({**good, **wrong})


@pytest.mark.parametrize("name", sorted(ZOO))
def test_valid_inputs_pass(name: str) -> None:
    given = inputs(name)
    check_numbers(given)
    model = built(name)
    check_shapes(model, given)
    check_range(model, given)


def test_narrow_ids_and_arrays_are_taken() -> None:
    model = built("bert")
    expected = Lens(model).measure("attention", {"input_ids": IDS}).scores
    for ids in (IDS.to(torch.int16), IDS.numpy().astype(np.uint8), IDS.tolist(), IDS[0]):
        assert np.array_equal(Lens(model).measure("attention", {"input_ids": ids}).scores, expected)


def test_positions_move_with_their_tokens() -> None:
    mask = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
    shared = torch.tensor([[4, 5, 6, 7]])
    tensors = {"input_ids": torch.arange(8).reshape(2, 4), "attention_mask": mask}
    moved = real_tokens_first({**tensors, "position_ids": shared}, lambda prefix: 9)
    assert moved["position_ids"].tolist() == [[6, 7, 4, 5], [4, 5, 6, 7]]
    assert moved["input_ids"].tolist() == [[2, 3, 9, 9], [4, 5, 6, 7]]
    three = torch.stack([shared.expand(2, 4)] * 3)
    moved = real_tokens_first({**tensors, "position_ids": three}, lambda prefix: None)
    assert moved["position_ids"][1].tolist() == [[6, 7, 4, 5], [4, 5, 6, 7]]
    assert moved["input_ids"].tolist() == [[2, 3, 0, 1], [4, 5, 6, 7]]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "NoneType is not a text"),
        (b"a dog", "bytes is not a text"),
        ({"a", "b"}, "A set has no order"),
        (("a", "b", "c"), "several texts as a list"),
        (torch.tensor([1, 2]), "input_ids"),
        (np.array([1, 2]), "input_ids"),
        ([1, 2, 3], "text 0: .*Pass token ids as"),
        (["fine", ""], "text 1: The text is empty"),
        (["fine", None], "text 1: NoneType is not a text"),
        ("a \ud800 b", "Character 2 of the text is a lone surrogate"),
        (("fine", "b\udcff"), "Character 1 of the text is a lone surrogate"),
    ],
)
def test_invalid_texts(given: Any, words: str) -> None:
    lens = Lens.bundled()
    with pytest.raises(mixlens.InvalidInput, match=words):
        prepare_inputs(lens.model, lens.tokenizer, given)
