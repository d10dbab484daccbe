"""Prepare prompts for language models: a text, the messages of a chat, or token ids.

Messages are formatted as one text, which is then tokenised. Every token therefore has a character
span in this text, and every turn of the chat is a segment. Text that the chat template adds around
the messages does not belong to any turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from mixlens.errors import EmptyInput, InvalidInput, MissingTokenizer
from mixlens.text.chats import Message, format_chat, media_parts
from mixlens.text.encoding import token_row, tokenise_checked
from mixlens.text.input_checks import check_numbers, check_token_ids
from mixlens.text.inputs import as_tensor, check_text
from mixlens.text.segments import ANSWER, CHAT, OTHER, PROMPT, Spans, token_segments
from mixlens.text.tokens import Segment, TokenRow

Given = str | Iterable[Message] | Mapping[str, Any]
"""The types that a prompt may have."""

_PAIR = ("input_ids", "attention_mask")


@dataclass(frozen=True)
class Prompt:
    """Stores the tokens of a prompt, before anything is generated."""

    ids: tuple[int, ...]
    row: TokenRow
    begins_specially: (
        bool  # whether the tokenizer adds its special tokens, or the text contains them
    )
    name: str = PROMPT  # name of the whole prompt, if it has no turns
    turns: Spans | None = None  # character spans of the turns
    # which of the passed token ids are tokens of the prompt
    mask: tuple[bool, ...] | None = field(default=None, kw_only=True)

    def divide(self, row: TokenRow) -> TokenRow:
        """Return a sequence that begins with this prompt, divided into the segments of the
        prompt.
        """
        whole = Segment(self.name, 0, len(row))
        return replace(row, segments=token_segments(row, self.turns) or (whole,))


def prompt_of(tokenizer: Any, inputs: Given) -> Prompt:
    """Tokenise a prompt and find its segments."""
    if isinstance(inputs, Mapping):
        return _from_ids(tokenizer, inputs)
    if isinstance(inputs, (bytes, bytearray, torch.Tensor)) or not hasattr(inputs, "__iter__"):
        raise InvalidInput(
            f"{type(inputs).__name__} is not a prompt. Pass a text, the messages of a chat, or "
            f"{{'input_ids': ids}}."
        )
    if tokenizer is None:
        raise MissingTokenizer(
            "The model has no tokenizer, so it cannot read a prompt. Add one, or pass "
            "input_ids instead of the text."
        )
    chat = not isinstance(inputs, str)
    inputs = inputs if isinstance(inputs, str) else list(inputs)
    media = None if isinstance(inputs, str) else next(media_parts(inputs), None)
    if media is not None:
        raise InvalidInput(
            f"The chat has a part of type {media['type']!r}, which needs the model's processor. "
            "Generate or explain an answer with a model that was loaded with its processor."
        )
    text, turns = (inputs, None) if isinstance(inputs, str) else format_chat(tokenizer, inputs)
    check_text(text)
    ids, offsets = tokenise_prompt(tokenizer, text, specially=not chat)
    tokens = token_row(tokenizer, ids, text, offsets)
    prompt = Prompt(tuple(ids), tokens, not chat, CHAT if chat else PROMPT, turns)
    return replace(prompt, row=prompt.divide(tokens))


def tokenise_prompt(
    tokenizer: Any, text: str, *, specially: bool
) -> tuple[list[int], list[tuple[int, int]] | None]:
    """Return the token ids of a text, and the character span of each token if the tokenizer has
    offsets.
    """
    fast = bool(getattr(tokenizer, "is_fast", False))
    options = {"return_offsets_mapping": True} if fast else {}
    encoding = tokenise_checked(tokenizer, text, add_special_tokens=specially, **options)
    if not encoding["input_ids"]:
        raise EmptyInput(f"The tokenizer returns no token for {text!r}. Pass a different text.")
    return list(encoding["input_ids"]), list(encoding["offset_mapping"]) if fast else None


def with_answer(row: TokenRow, prompt_tokens: int) -> TokenRow:
    """Name the tokens after the prompt "answer" in the segments of a sequence.

    A token that overlaps prompt and answer belongs to the answer. In a decoder, only the start
    token comes before the answer.
    """
    before = row.segments or (Segment(OTHER, 0, prompt_tokens),)
    segments = [
        part._replace(stop=min(part.stop, prompt_tokens))
        for part in before
        if part.start < prompt_tokens
    ]
    if len(row) > prompt_tokens:
        segments.append(Segment(ANSWER, prompt_tokens, len(row)))
    return replace(row, segments=tuple(segments))


def _from_ids(tokenizer: Any, inputs: Mapping[str, Any]) -> Prompt:
    other = [name for name in inputs if name not in _PAIR]
    if other or inputs.get("input_ids") is None:
        raise InvalidInput(
            f"A dict with {', '.join(other) or 'no input_ids'} is not a prompt. Pass a text, "
            f"the messages of a chat, or {{'input_ids': ids}}."
        )
    tensors = {name: as_tensor(name, value) for name, value in inputs.items() if value is not None}
    check_numbers(tensors)
    ids = tensors["input_ids"]
    mask = tensors.get("attention_mask", torch.ones_like(ids))
    if ids.dim() != 2 or len(ids) != 1:
        raise InvalidInput(
            f"input_ids has the shape {tuple(ids.shape)}. Pass the token ids of one prompt at "
            "a time."
        )
    if mask.shape != ids.shape:
        raise InvalidInput(
            f"attention_mask has the shape {tuple(mask.shape)}, but input_ids has "
            f"{tuple(ids.shape)}. Pass one number for each token."
        )
    numbers = ids[mask.bool()]
    if not len(numbers):
        raise EmptyInput("The prompt is empty. Pass at least one token.")
    check_token_ids("input_ids", numbers)
    tokens = token_row(tokenizer, numbers.tolist())
    is_real = tuple(mask[0].bool().tolist())
    prompt = Prompt(tuple(numbers.tolist()), tokens, begins_specially=False, mask=is_real)
    return replace(prompt, row=prompt.divide(tokens))
