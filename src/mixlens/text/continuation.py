"""A prompt and its continuation, generated or passed: which position produced which token.

Position t of a causal model, or of a decoder, produces the token at t + 1. The last token of the
continuation is therefore produced, but is never an input. A passed answer is tokenised together
with the prompt, as the model would read them. Tokens that overlap the answer belong to it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import torch
from torch import nn

from mixlens.errors import EmptyInput, InvalidInput
from mixlens.model.rotary import require_same_frequencies
from mixlens.text.decoder_inputs import start_token, target_prefix
from mixlens.text.encoding import decoded, encoded, token_row
from mixlens.text.generation import (
    generated,
    generated_by_decoder,
    require_room,
    with_mask,
    without_end,
)
from mixlens.text.input_checks import check_answer_ids, takes_decoder_ids
from mixlens.text.inputs import Prepared, made_ready
from mixlens.text.media_prompts import MediaPrompt, continued_tensors, has_media, media_prompt
from mixlens.text.padding import masks_more_than_padding
from mixlens.text.prompts import Given, Prompt, prompt_of, tokenised, with_answer
from mixlens.text.tokens import Produced, TokenRow, whole_numbers

_UNKNOWN = "\ufffd"
_ANCHOR = 8  # preceding tokens that decide whether a generated token begins with a space


@dataclass(frozen=True)
class Continued:
    """A prompt with its continuation, and the positions that produced the continuation."""

    ready: Prepared
    targets: tuple[int, ...]


def continued(
    model: nn.Module,
    tokenizer: Any,
    given: Given,
    *,
    answer: str | Sequence[int] | None,
    options: Mapping[str, Any],
    explain_end: bool = True,
    processor: Any = None,
) -> Continued:
    """Return the prompt with the model's continuation, or with `answer` if you pass one.

    `options` are passed to `generate`. Without `explain_end`, special tokens at the end of the
    generated text are dropped.
    """
    if answer is not None and options:
        raise InvalidInput(
            f"{', '.join(options)} cannot be combined with an answer. Drop the options or the "
            "answer."
        )
    if "stop_strings" in options and tokenizer is not None:
        options = {"tokenizer": tokenizer, **options}  # transformers needs it for these
    if answer is not None and not isinstance(answer, str):
        answer = _checked_ids(model, answer)
    if answer == "":
        raise EmptyInput("The answer is empty. Pass at least one token.")
    if not isinstance(given, (str, Mapping)) and hasattr(given, "__iter__"):
        given = list(given)
    if has_media(given):
        prompt: Prompt = media_prompt(model, tokenizer, processor, given)
    else:
        prompt = prompt_of(tokenizer, given)
    if takes_decoder_ids(model):
        return _decoded(model, tokenizer, prompt, answer, options, explain_end)
    if answer is None:
        is_text = not isinstance(prompt, MediaPrompt)
        tensors = None if is_text else _inputs(model, prompt, prompt.ids)
        new = generated(model, [*prompt.ids], options, tensors)[len(prompt.ids) :]
        new = new if explain_end else without_end(model, tokenizer, new)
        whole = _with_generated(tokenizer, prompt, new)
        count = len(prompt.ids)
    else:
        whole, count = _with_given(tokenizer, prompt, answer)
    ids, row = whole
    if count < 1:
        raise InvalidInput("The prompt has no token before the answer. Pass a longer prompt.")
    require_room(model, "", count, len(ids) - count)
    require_same_frequencies(model, count, len(ids) - 1)
    row = with_answer(row, count)
    ready = _inputs(model, prompt, ids[:-1])
    merges = answer is not None and _merges(prompt, row, count)
    produced = Produced(_part(row, slice(1, None)), tuple(ids[1:]), count - 1, merges)
    targets = tuple(range(count - 1, len(ids) - 1))
    prepared = Prepared(
        ready, [_part(row, slice(-1))], None, [produced], masks_more_than_padding=False
    )
    return Continued(prepared, targets)


def _inputs(model: nn.Module, prompt: Prompt, ids: Sequence[int]) -> dict[str, Any]:
    """Return the model inputs for a sequence of token ids that begins with the prompt."""
    if isinstance(prompt, MediaPrompt):
        return made_ready(model, continued_tensors(model, prompt, ids))
    return made_ready(model, with_mask(model, {"input_ids": torch.tensor([list(ids)])}))


def _part(row: TokenRow, part: slice) -> TokenRow:
    """Return a slice of the tokens of a sequence.

    If the slice starts at the first token, its segments include all tokens but the last.
    """
    segments = None
    if part.start is None and row.segments is not None:
        last = len(row) - 1
        segments = tuple(s._replace(stop=min(s.stop, last)) for s in row.segments if s.start < last)
    return TokenRow(
        row.labels[part],
        row.text,
        None if row.offsets is None else row.offsets[part],
        None if row.special is None else row.special[part],
        segments,
        pictures=row.pictures if part.start in (None, 0) else (),
    )


# ----------------------------------------------------------------------------------- a given answer


def _checked_ids(model: nn.Module, answer: Any) -> list[int]:
    """Return the token ids of an answer, or raise an error if they are not in the vocabulary."""
    alone = not hasattr(answer, "__iter__") or getattr(answer, "ndim", 1) == 0
    if alone or isinstance(answer, (bytes, bytearray)):
        raise InvalidInput(
            f"{type(answer).__name__} is not an answer. Pass a text or a list of token ids."
        )
    if isinstance(answer, Sequence) and not answer:
        raise EmptyInput("The answer is empty. Pass at least one token.")
    ids = whole_numbers(answer, "the token ids of an answer") or []
    check_answer_ids(model, ids)
    return ids


def _with_given(
    tokenizer: Any, prompt: Prompt, answer: str | Sequence[int]
) -> tuple[tuple[list[int], TokenRow], int]:
    """Join the prompt and the answer to one sequence of tokens, and return it with the number of
    tokens before the answer.
    """
    if not isinstance(answer, str):
        return _with_generated(tokenizer, prompt, answer), len(prompt.ids)
    text = prompt.row.text
    if text is None:
        raise InvalidInput(
            "The prompt has token ids, but the answer is a text. Pass token ids for both."
        )
    _warn_of_joined_words(text, answer)
    if isinstance(prompt, MediaPrompt):
        new = _ids_after(tokenizer, prompt, answer)
        return _with_generated(tokenizer, prompt, new), len(prompt.ids)
    ids, offsets = tokenised(tokenizer, text + answer, specially=prompt.begins_specially)
    if offsets is not None:
        inside = [i for i, (_, stop) in enumerate(offsets) if stop > len(text)]
    else:
        same = zip(ids, prompt.ids, strict=False)
        differs = next((i for i, (a, b) in enumerate(same) if a != b), len(prompt.ids))
        added = set(tokenizer.all_special_ids)  # such as an end token after the answer
        inside = [i for i in range(differs, len(ids)) if ids[i] not in added]
    if not inside:
        raise EmptyInput(
            f"The tokenizer returns no token for the answer {answer!r}. Pass a different answer."
        )
    first, last = inside[0], inside[-1]
    row = _part(token_row(tokenizer, ids, text + answer, offsets), slice(0, last + 1))
    return (ids[: last + 1], prompt.divided(row)), first


def _ids_after(tokenizer: Any, prompt: MediaPrompt, answer: str) -> list[int]:
    """Return the token ids of an answer that follows a prompt with images.

    The tokens of the prompt must not change.
    """
    text = prompt.row.text or ""
    before, _ = tokenised(tokenizer, text, specially=prompt.begins_specially)
    both, offsets = tokenised(tokenizer, text + answer, specially=prompt.begins_specially)
    places = offsets or []
    after = [i for i, (_, stop) in enumerate(places) if stop > len(text)]
    if not after or both[: after[0]] != before or places[after[0]][0] < len(text):
        raise InvalidInput(
            f"The answer {answer[:40]!r} merges with the end of the prompt, {text[-10:]!r}. Begin "
            "it with a space, or pass it as token ids."
        )
    return both[after[0] : after[-1] + 1]


def _merges(prompt: Prompt, row: TokenRow, first: int) -> bool:
    """Return whether the first token of the answer also covers words of the prompt."""
    text = prompt.row.text
    if text is None or row.offsets is None:
        return False
    start, stop = row.offsets[first]
    return stop > len(text) and bool(text[start:].strip())


def _warn_of_joined_words(text: str, answer: str) -> None:
    ends = text[-1] + answer[0]
    if ends.isascii() and ends.isalnum():
        warnings.warn(
            f"the answer follows the prompt directly: …{text[-10:]}{answer[:10]}…. Begin it "
            "with a space if it is a new word.",
            stacklevel=2,
        )


# -------------------------------------------------------------------------------- generated tokens


def _with_generated(
    tokenizer: Any, prompt: Prompt, new: Sequence[int]
) -> tuple[list[int], TokenRow]:
    """Join the tokens of the prompt and the generated tokens to one sequence, and return it with
    its text.
    """
    own = prompt.row
    behind = token_row(tokenizer, new)
    text, places = own.text, own.offsets
    if text is not None and places is not None:
        added, new_places = _spelled(tokenizer, prompt.ids, new, len(text))
        text, places = text + added, places + new_places
    row = TokenRow(
        own.labels + behind.labels,
        text,
        places,
        None if own.special is None else own.special + (behind.special or ()),
        own.segments,
        pictures=own.pictures,
    )
    return [*prompt.ids, *new], row


def _spelled(
    tokenizer: Any, before: Sequence[int], new: Sequence[int], shift: int
) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return the text of new tokens that follow others, and the character span of each.

    Several tokens may encode one character, and each of them then covers all of it. Until the last
    byte of a character is known, it is decoded as a replacement character.
    """
    anchor = list(before[-_ANCHOR:])
    plain = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
    base = decoded(tokenizer, anchor, **plain)
    written = [decoded(tokenizer, [*anchor, *new[:k]], **plain) for k in range(len(new) + 1)]
    whole = written[-1]
    start = _same_beginning(base, whole)
    ends = [max(start, _same_beginning(part, whole)) for part in written]
    places = []
    for number, token in enumerate(new):
        first, stop = ends[number], ends[number + 1]
        writes = written[number + 1] != written[number] or decoded(tokenizer, [token], **plain)
        if stop == first and writes:
            stop = next((end for end in ends[number + 1 :] if end > stop), stop)
            if stop == first and whole[start:first].endswith(_UNKNOWN):
                first -= 1  # the text ends inside a character
        places.append((shift + first - start, shift + stop - start))
    return whole[start:], tuple(places)


def _same_beginning(one: str, other: str) -> int:
    """Return the length of the common prefix of two texts, which may end inside a character."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


# ------------------------------------------------------------------------------ encoder and decoder


def _decoded(
    model: nn.Module,
    tokenizer: Any,
    prompt: Prompt,
    answer: str | Sequence[int] | None,
    options: Mapping[str, Any],
    explain_end: bool,
) -> Continued:
    """Return the tokens of encoder and decoder.

    The encoder reads the prompt, and the positions of the decoder produce the continuation.
    """
    tensors = _inputs(model, prompt, prompt.ids)
    text, offsets = "", None
    if answer is None:
        before, new = generated_by_decoder(model, prompt.ids, options, tensors)
        new = new if explain_end else without_end(model, tokenizer, new)
    elif isinstance(answer, str):
        made = encoded(tokenizer, [answer], None, as_target=True)[0]
        new, text, offsets = made["input_ids"], answer, made.get("offset_mapping")
        before = target_prefix(model, tokenizer, new)
        if not before:  # the tokenizer added the start token, and may add others (Whisper)
            count = len(tokenizer.prefix_tokens)
            before, new = new[:count], new[count:]
            offsets = None if offsets is None else offsets[count:]
    else:
        before, new = [start_token(model)], list(answer)
    require_room(model, "decoder_", len(before), len(new))
    require_same_frequencies(model, len(before), len(new))
    if offsets is None and tokenizer is not None and getattr(tokenizer, "is_fast", False):
        text, places = _spelled(tokenizer, before, new, 0)
        offsets = list(places)
    known = None if offsets is None else [*[(0, 0)] * len(before), *offsets]
    whole, first = [*before, *new], len(before) - 1
    row = with_answer(token_row(tokenizer, whole, text, known), len(before))
    tensors |= with_mask(model, {"decoder_input_ids": torch.tensor([whole[:-1]])})
    ready = made_ready(model, tensors)
    produced = Produced(_part(row, slice(1, None)), tuple(whole[1:]), first)
    is_heard = isinstance(prompt, MediaPrompt) and not prompt.ids
    prepared = Prepared(
        ready,
        None if is_heard else [prompt.row],
        [_part(row, slice(-1))],
        [produced],
        masks_more_than_padding=masks_more_than_padding(ready),
        seconds=prompt.seconds if isinstance(prompt, MediaPrompt) else None,
    )
    return Continued(prepared, tuple(range(first, first + len(new))))
