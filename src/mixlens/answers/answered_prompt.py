"""A prompt with its answer, as token ids, and the passages of the prompt.

A passage is a set of tokens with a name. Special tokens and the text that a chat template writes
around the messages belong to no passage, so they are never removed.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from mixlens.errors import EmptyInput, InvalidInput
from mixlens.measuring.answer_odds import require_causal
from mixlens.recording.recording import Recording
from mixlens.text.continuation import continued
from mixlens.text.encoding import decoded
from mixlens.text.input_checks import is_plain_text, takes_decoder_ids
from mixlens.text.prompts import Given, prompt_of
from mixlens.text.segments import (
    ANSWER,
    CHAT,
    OTHER,
    By,
    Spans,
    divided,
    named_parts,
    spans_of,
)
from mixlens.text.tokens import TokenRow


@dataclass(frozen=True)
class Passage:
    """Named tokens of a prompt."""

    name: str
    text: str
    tokens: tuple[int, ...]  # their positions in the prompt


@dataclass(frozen=True)
class AnsweredPrompt:
    """Token ids of a prompt and of the answer after it."""

    ids: tuple[int, ...]
    row: TokenRow  # of the prompt
    answer_ids: tuple[int, ...]
    answer_tokens: tuple[str, ...]
    answer: str  # the text of the answer
    start: int | None = None  # the token that a decoder begins with
    answer_offsets: tuple[tuple[int, int], ...] | None = None  # of its tokens in `answer`, if known
    mask: tuple[bool, ...] | None = None  # which of the passed token ids are tokens of the prompt

    def without(self, removed: Sequence[int]) -> list[int]:
        """Return the token ids of the prompt without some positions."""
        gone = set(removed)
        return [token for place, token in enumerate(self.ids) if place not in gone]


def read_answered_prompt(
    model: nn.Module,
    tokenizer: Any,
    given: Given | Recording,
    answer: str | Sequence[int] | None,
    options: Mapping[str, Any],
) -> AnsweredPrompt:
    """Return the tokens of a prompt and of its answer, given or generated, or those of a recording
    that `Lens.generate` made.
    """
    if isinstance(given, Recording):
        return _of_recording(model, given, answer, options)
    own = prompt_of(tokenizer, given)
    require_causal(model, own.ids)
    made = continued(model, tokenizer, given, answer=answer, options=options)
    produced, places = made.ready.produced, made.targets
    assert produced is not None  # it is a continuation
    before = tuple(made.ready.tensors["input_ids"][0].tolist())
    decodes = takes_decoder_ids(model)
    if not decodes and before[: places[0] + 1] != own.ids:
        raise InvalidInput(
            "The answer changes the tokens of the prompt. Begin the answer with a space,"
            " or pass it as token ids."
        )
    begun = made.ready.tensors.get("decoder_input_ids")
    ids = tuple(produced[0].ids[place] for place in places)
    return AnsweredPrompt(
        own.ids,
        own.row,
        ids,
        tuple(produced[0].tokens.labels[place] for place in places),
        answer if isinstance(answer, str) else _text_of(tokenizer, ids),
        None if begun is None else int(begun[0, 0]),
        mask=own.mask,
    )


def _of_recording(
    model: nn.Module, recording: Recording, answer: Any, options: Mapping[str, Any]
) -> AnsweredPrompt:
    if recording.produced is None or recording.targets is None or recording.batch != 1:
        raise InvalidInput(
            f"{recording!r} has no answer. Pass a recording of `lens.generate`, or the prompt."
        )
    if recording.model is not model:
        raise InvalidInput(
            f"The recording was made with a different {type(recording.model).__name__}. Use the"
            " lens that made it."
        )
    if answer is not None or options:
        raise InvalidInput("The recording has an answer. Pass the prompt to explain another one.")
    recording.require_state()
    require_words_alone(recording, "Removal of passages")
    places, (tokens, produced, *_) = recording.targets[0], recording.produced[0]
    if list(places) != list(range(places[0], places[-1] + 1)):
        raise InvalidInput(
            f"The targets {list(places)} of the recording are not one answer. Record it again with"
            " `lens.generate`."
        )
    ids = tuple(recording.inputs["input_ids"][0].tolist())
    first, stack = recording.structure.calls[0][0].name, recording.last_stack.name
    row, start = recording.tokens[first][0], None
    if first == stack:
        end = places[0] + 1
        ids, row = ids[:end], _cut(row, end)
    else:
        ids = ids[: len(row)]
        start = int(recording.inputs["decoder_input_ids"][0, 0])
    chosen = tuple(produced[place] for place in places)
    labels = tuple(tokens.labels[place] for place in places)
    text, offsets = recording.answer or "".join(labels), None
    if recording.answer and tokens.offsets is not None:
        shift = max(tokens.offsets[place][1] for place in places) - len(text)
        offsets = tuple((a - shift, b - shift) for a, b in map(tokens.offsets.__getitem__, places))
    return AnsweredPrompt(ids, row, chosen, labels, text, start, offsets)


def require_words_alone(recording: Recording, method: str) -> None:
    """Raise `InvalidInput` if a prompt has images or audio, which cannot be removed token by
    token.
    """
    if not is_plain_text(recording.inputs):
        raise InvalidInput(
            f"{method} supports text-only prompts, but this one has images or audio. Use a"
            " measure such as flow_routes, alti or value_zeroing."
        )


def _cut(row: TokenRow, end: int) -> TokenRow:
    """Return the first tokens of a sequence, with the text up to them."""
    known = None if row.offsets is None else row.offsets[:end]
    text = row.text if known is None or row.text is None else row.text[: max(b for _, b in known)]
    segments = row.segments and tuple(
        part._replace(stop=min(part.stop, end)) for part in row.segments if part.start < end
    )
    special = None if row.special is None else row.special[:end]
    return TokenRow(row.labels[:end], text, known, special, segments)


def _text_of(tokenizer: Any, ids: Sequence[int]) -> str:
    return " ".join(map(str, ids)) if tokenizer is None else decoded(tokenizer, list(ids))


# ---------------------------------------------------------------------------------------- passages


def find_passages(row: TokenRow, segments: By, mask: Sequence[bool] | None = None) -> list[Passage]:
    """Return the passages of a prompt in their order.

    Sentences and paragraphs of a chat are those of its messages. Without a text, segments are
    ranges of the passed token ids, of which `mask` marks the tokens of the prompt.
    """
    if row.text is None and segments is not None and not isinstance(segments, str):
        return _token_ranges(row, segments, [True] * len(row) if mask is None else mask)
    by = _inside_turns(row, segments) if isinstance(segments, str) else segments
    by_name: dict[str, list[int]] = {}
    for part in divided(row, by):
        if part.name not in (OTHER, ANSWER):
            by_name.setdefault(part.name, []).extend(range(part.start, part.stop))
    if not by_name:
        raise InvalidInput("No segment of the prompt is named. Name at least one.")
    return [Passage(name, _written(row, held), tuple(held)) for name, held in by_name.items()]


def _inside_turns(row: TokenRow, kind: str) -> By:
    """Return sentences and paragraphs of each message. Template text between them is not part of
    any.
    """
    turns = [part for part in row.segments or () if part.name != OTHER]
    whole = len(turns) == 1 and turns[0].stop - turns[0].start == len(row)
    if kind not in ("sentences", "paragraphs") or row.text is None or row.offsets is None or whole:
        return kind
    if any(part.name == CHAT for part in turns):
        return kind
    spans: Spans = []
    for part in turns:
        covered = [(a, b) for a, b in row.offsets[part.start : part.stop] if a < b]
        if not covered:
            continue
        first, last = covered[0][0], covered[-1][1]
        spans += [
            (f"{kind[:-1]} {len(spans) + number}", first + start, first + stop)
            for number, (_, start, stop) in enumerate(spans_of(row.text[first:last], kind), 1)
        ]
    return spans


def _written(row: TokenRow, tokens: Sequence[int]) -> str:
    if row.text is None or row.offsets is None:
        return " ".join(row.labels[place] for place in tokens)
    return row.text[row.offsets[tokens[0]][0] : row.offsets[tokens[-1]][1]].strip()


def _token_ranges(row: TokenRow, segments: Any, mask: Sequence[bool]) -> list[Passage]:
    passages: list[Passage] = []
    taken: dict[int, str] = {}
    for name, given in named_parts(segments):
        try:
            start, stop = map(operator.index, given)
        except (TypeError, ValueError):
            raise InvalidInput(
                f"Segment {name!r}: {given!r} is not a range of tokens. The prompt is given as"
                " token ids, so pass (first token, one after the last)."
            ) from None
        if not 0 <= start < stop <= len(mask):
            raise InvalidInput(
                f"Segment {name!r} ({start}–{stop}) is empty or outside the prompt of {len(mask)}"
                " tokens."
            )
        before = sum(mask[:start])
        tokens = tuple(range(before, before + sum(mask[start:stop])))
        if not tokens:
            raise InvalidInput(
                f"Segment {name!r} ({start}–{stop}) has only tokens that attention_mask hides."
                " Positions count all passed token ids, including padding."
            )
        twice = next((taken[place] for place in tokens if place in taken), None)
        if twice is not None:
            raise InvalidInput(f"Segments {twice!r} and {name!r} overlap. Shorten one of them.")
        taken.update(dict.fromkeys(tokens, name))
        passages.append(Passage(name, _written(row, tokens), tokens))
    if not passages:
        raise InvalidInput("No segment of the prompt is named. Name at least one.")
    return sorted(passages, key=lambda passage: passage.tokens)


def require_rest(prompt: AnsweredPrompt, passages: Sequence[Passage]) -> None:
    """Raise `EmptyInput` if a prompt has no token without one of the passages."""
    for passage in passages:
        if len(passage.tokens) >= len(prompt.ids):
            raise EmptyInput(
                f"Segment {passage.name!r} is the whole prompt, so removing it would leave nothing."
                " Choose smaller segments."
            )
