"""Split an answer into sentences and words, and find the prompt part of each source token."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mixlens.answers.prompt_parts import QUESTION, TEMPLATE, PromptPart
from mixlens.text.segments import ANSWER, spans_of
from mixlens.text.tokens import TokenRow
from mixlens.text.words import words

OWN_WORDS = "own words"
FIRST_TOKEN = "first token"


class AnswerPart(NamedTuple):
    """A sentence or a word of an answer."""

    text: str
    first: int  # its first token, counted from the first one of the answer
    stop: int  # after its last
    start: int  # its first character in the text of the answer
    end: int  # after its last


def split_sentences(text: str, offsets: Sequence[tuple[int, int]]) -> tuple[AnswerPart, ...]:
    """Return the sentences of an answer.

    `offsets` are the character spans of the answer's tokens. A token belongs to the sentence that
    contains its first non-blank character. A blank token belongs to the preceding sentence.
    """
    spans = spans_of(text, "sentences")
    starts = [start for _, start, _ in spans]
    places = [first_character(text, offset) for offset in offsets]
    owner = np.maximum(np.searchsorted(starts, places, side="right") - 1, 0)
    parts = []
    for number, (_, start, end) in enumerate(spans):
        tokens = np.flatnonzero(owner == number)
        if len(tokens):
            parts.append(
                AnswerPart(text[start:end], int(tokens[0]), int(tokens[-1]) + 1, start, end)
            )
    return tuple(parts)


def split_words(
    row: TokenRow, positions: Sequence[int], text: str, shift: int
) -> tuple[AnswerPart, ...]:
    """Return the words of an answer.

    `row` contains the tokens of the prompt followed by the tokens of the answer. In the text of
    `row`, the answer starts at character `shift`.
    """
    assert row.offsets is not None
    first, last = positions[0], positions[-1] + 1
    parts = []
    for start, stop in words(row)[0]:
        start, stop = max(start, first), min(stop, last)
        if start >= stop:
            continue
        ranges = [row.offsets[place] for place in range(start, stop)]
        begin, end = ranges[0][0] - shift, max(end for _, end in ranges) - shift
        begin += len(text[begin:end]) - len(text[begin:end].lstrip())
        if text[begin:end].strip():
            parts.append(AnswerPart(text[begin:end], start - first, stop - first, begin, end))
    return tuple(parts)


def first_character(text: str, offset: tuple[int, int]) -> int:
    """Return the position of a token's first non-blank character."""
    start, stop = offset
    piece = text[start:stop]
    blank = len(piece) - len(piece.lstrip())
    return start + blank if blank < len(piece) else start


def locate_tokens(row: TokenRow, parts: Sequence[PromptPart]) -> np.ndarray:
    """Return the index of the part that contains each token, or -1.

    Parts must be sorted and must not overlap.
    """
    assert row.text is not None
    assert row.offsets is not None
    starts = [part.start for part in parts]
    owner = np.full(len(row), -1, dtype=np.int64)
    for token, offset in enumerate(row.offsets):
        start, stop = offset
        if start == stop == 0:  # a special token outside the text
            continue
        place = first_character(row.text, offset)
        number = bisect_right(starts, place) - 1
        if number >= 0 and place < parts[number].stop:
            owner[token] = number
    return owner


def kinds_of_tokens(row: TokenRow, parts: Sequence[PromptPart], *, has_sink: bool) -> list[str]:
    """Return the kind of the prompt part that contains each source token."""
    owner = locate_tokens(row, parts)
    special = row.special or (False,) * len(row)
    has_template = any(part.kind == TEMPLATE for part in parts)
    kinds = [
        parts[number].kind if number >= 0 else TEMPLATE if mark or has_template else QUESTION
        for number, mark in zip(owner, special, strict=True)
    ]
    for segment in row.segments or ():
        if segment.name == ANSWER:
            kinds[segment.start : segment.stop] = [OWN_WORDS] * (segment.stop - segment.start)
    if has_sink:
        kinds[0] = FIRST_TOKEN
    return kinds
