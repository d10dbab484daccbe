"""A prompt as a language model is given it: one text, the messages of a chat, or token ids.

Messages are written out by the tokenizer's own chat template, and the result is tokenised as one
text. So every token has its place in that text, and every turn of the chat is a segment. What the
template puts around the messages belongs to no turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from mixlens.errors import EmptyInput, InvalidInput, MissingTokenizer
from mixlens.recording.checks import check_numbers, check_token_ids
from mixlens.recording.encoding import token_row
from mixlens.recording.inputs import as_tensor, check_text
from mixlens.segments import ANSWER, CHAT, PROMPT, Spans, token_segments
from mixlens.tokens import Segment, TokenRow

Message = Mapping[str, str]
"""{"role": "user", "content": "…"}"""

Given = str | Sequence[Message] | Mapping[str, Any]
"""What a prompt may be."""

_PAIR = ("input_ids", "attention_mask")


@dataclass(frozen=True)
class Prompt:
    """The tokens of a prompt, before anything is generated."""

    ids: tuple[int, ...]
    row: TokenRow
    begins_specially: bool  # does the tokenizer add its special tokens, or are they in the text?


def prompt_of(tokenizer: Any, given: Given) -> Prompt:
    """The tokens of what was given."""
    if isinstance(given, Mapping):
        return _from_ids(tokenizer, given)
    chat = not isinstance(given, str)
    if tokenizer is None:
        raise MissingTokenizer(
            "a prompt needs a tokenizer, and the model came without one: give it one, or input_ids"
            " instead of the text"
        )
    turns: Spans | None = None
    if isinstance(given, str):
        text = given
    else:
        text, turns = _written_out(tokenizer, given)
    check_text(text)
    ids, offsets = tokenised(tokenizer, text, specially=not chat)
    row = token_row(tokenizer, ids, text, offsets)
    whole = Segment(CHAT if chat else PROMPT, 0, len(row))
    named = token_segments(row, turns) or (whole,)
    return Prompt(tuple(ids), replace(row, segments=named), not chat)


def tokenised(
    tokenizer: Any, text: str, *, specially: bool
) -> tuple[list[int], list[tuple[int, int]] | None]:
    """Token ids, and the characters of each if the tokenizer knows them."""
    fast = bool(getattr(tokenizer, "is_fast", False))
    options = {"return_offsets_mapping": True} if fast else {}
    made = tokenizer(text, add_special_tokens=specially, **options)
    if not made["input_ids"]:
        raise EmptyInput(f"the tokenizer makes no token of {text!r}")
    return list(made["input_ids"]), list(made["offset_mapping"]) if fast else None


def with_answer(row: TokenRow, prompt_tokens: int) -> TokenRow:
    """The row with the tokens after its prompt named as the answer."""
    known = [part for part in row.segments or () if part.stop <= prompt_tokens]
    if len(row) > prompt_tokens:
        known.append(Segment(ANSWER, prompt_tokens, len(row)))
    return replace(row, segments=tuple(known))


def _from_ids(tokenizer: Any, given: Mapping[str, Any]) -> Prompt:
    other = [name for name in given if name not in _PAIR]
    if other or given.get("input_ids") is None:
        raise InvalidInput(
            "a prompt is a text, the messages of a chat, or {'input_ids': ids};"
            f" this has {', '.join(other) or 'no input_ids'}"
        )
    tensors = {name: as_tensor(name, value) for name, value in given.items() if value is not None}
    check_numbers(tensors)
    ids = tensors["input_ids"]
    mask = tensors.get("attention_mask", torch.ones_like(ids))
    if ids.dim() != 2 or len(ids) != 1:
        raise InvalidInput(
            f"input_ids of shape {tuple(ids.shape)}: give the token ids of one prompt at a time"
        )
    if mask.shape != ids.shape:
        raise InvalidInput(
            f"attention_mask has the shape {tuple(mask.shape)}, input_ids has {tuple(ids.shape)}:"
            " there must be one number for each token"
        )
    numbers = ids[mask.bool()]
    if not len(numbers):
        raise EmptyInput("the prompt is empty")
    check_token_ids("input_ids", numbers)
    row = token_row(tokenizer, numbers.tolist())
    return Prompt(
        tuple(numbers.tolist()), replace(row, segments=(Segment(PROMPT, 0, len(row)),)), False
    )


def _written_out(tokenizer: Any, messages: Sequence[Message]) -> tuple[str, Spans | None]:
    """The text that the template makes of messages, and where each of them is in it."""
    messages = list(messages)
    for message in messages:
        if not isinstance(message, Mapping) or not isinstance(message.get("content"), str):
            raise InvalidInput(
                "a prompt is a text, or a list of messages such as"
                f" {{'role': 'user', 'content': '…'}}, not {message!r:.60}. Several prompts are"
                " generated one at a time."
            )
    if not messages:
        raise EmptyInput("there is no message in the chat")
    if getattr(tokenizer, "chat_template", None) is None:
        raise InvalidInput(
            "the tokenizer has no chat template, so messages cannot be written out: give the"
            " prompt as one text"
        )
    try:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except Exception as error:  # jinja2's own, and whatever a template raises
        raise InvalidInput(f"the chat template refuses these messages: {error}") from error
    return text, _turns(text, messages)


def _turns(text: str, messages: Sequence[Message]) -> Spans | None:
    """Where every message is in the text; None if the template rewrites one of them."""
    roles = [str(message.get("role")) for message in messages]
    turns, end = [], 0
    for number, (role, message) in enumerate(zip(roles, messages, strict=True)):
        content = message["content"].strip()
        start = text.find(content, end)
        if start < 0:
            return None
        end = start + len(content)
        if content:
            nth = roles[: number + 1].count(role)
            turns.append((role if roles.count(role) == 1 else f"{role} {nth}", start, end))
    return turns
