"""A prompt is a text, a chat or token ids. Everything else raises an error."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from mixlens import EmptyInput, InvalidInput, Lens, MixlensError
from mixlens.errors import MissingTokenizer
from mixlens.text.prompts import prompt_of, with_answer
from mixlens.text.segments import split_segments
from mixlens.text.tokens import Segment, TokenRow

HELLO = [{"role": "user", "content": "Hello there"}]
TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"


@pytest.fixture
def tokenizer() -> Any:
    return Lens.bundled("causal").tokenizer


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ("", EmptyInput, "The text is empty"),
        ({"input_ids": [1], "pixel_values": 1}, InvalidInput, "A dict with pixel_values"),
        ({"attention_mask": [1]}, InvalidInput, "A dict with no input_ids"),
        ({"input_ids": [[1], [2]]}, InvalidInput, "one prompt at a time"),
        ({"input_ids": [1.5]}, InvalidInput, "Pass integers"),
        ({"input_ids": [1, 2], "attention_mask": [0, 0]}, EmptyInput, "The prompt is empty"),
        (["a text"], InvalidInput, "is not a prompt"),
        (None, InvalidInput, "NoneType is not a prompt"),
        (3, InvalidInput, "int is not a prompt"),
        (b"Hello", InvalidInput, "bytes is not a prompt"),
        (torch.tensor([4, 5]), InvalidInput, "Tensor is not a prompt"),
        ([], EmptyInput, "chat has no message"),
        (HELLO, InvalidInput, "has no chat template"),
    ],
)
def test_invalid_prompts(tokenizer: Any, given: Any, error: type[MixlensError], words: str) -> None:
    tokenizer.chat_template = None
    with pytest.raises(error, match=words):
        prompt_of(tokenizer, given)


def test_a_text_needs_a_tokenizer_and_ids_do_not() -> None:
    with pytest.raises(MissingTokenizer, match="no tokenizer, so it cannot read a prompt"):
        prompt_of(None, "Hello")
    assert prompt_of(None, {"input_ids": torch.tensor([4, 5])}).ids == (4, 5)


def test_a_template_that_rewrites_a_message_has_no_turns(tokenizer: Any) -> None:
    tokenizer.chat_template = TEMPLATE.replace("content", "content | upper")
    row = prompt_of(tokenizer, HELLO).row
    assert [part.name for part in row.segments or ()] == ["chat"]
    with pytest.raises(InvalidInput, match="the chat template changes the messages"):
        split_segments(row, "turns")
    with pytest.raises(InvalidInput, match="are unknown: the tokenizer has no offset mapping"):
        split_segments(replace(row, offsets=None), "turns")
    with pytest.raises(InvalidInput, match="Pass the messages of a chat"):
        split_segments(prompt_of(tokenizer, "Hello there").row, "turns")
    tokenizer.chat_template = "{{ raise_exception('no system message') }}"
    with pytest.raises(InvalidInput, match=r"rejects these messages .no system message"):
        prompt_of(tokenizer, HELLO)


def test_an_empty_message_is_no_segment(tokenizer: Any) -> None:
    tokenizer.chat_template = TEMPLATE
    silent = [*HELLO, {"role": "assistant", "content": ""}]
    assert [part.name for part in prompt_of(tokenizer, silent).row.segments or ()] == ["user"]


def test_every_token_has_a_segment_with_an_answer_and_without() -> None:
    row = TokenRow(("a", "b", "c"))
    assert with_answer(row, 3).segment_names == ("(other)",) * 3
    assert with_answer(row, 1).segment_names == ("(other)", "answer", "answer")
    turns = replace(row, segments=(Segment("user", 0, 2), Segment("tool", 2, 3)))
    assert with_answer(turns, 1).segment_names == ("user", "answer", "answer")
    assert with_answer(turns, 2).segment_names == ("user", "user", "answer")
