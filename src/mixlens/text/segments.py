"""Group sources into named segments, such as turns, documents, sentences or paragraphs.

A segment is a range of characters of the text. A token belongs to the segment that contains its
first character that is not a space. Tokens outside all segments belong to the segment "(other)",
and tokens after the prompt to "answer". In a prompt file, you mark segments with separate lines:

    === document 1 ===

These lines are not part of the prompt. Each segment extends from its marker line to the next one.
The spaces around the name are optional.
"""

from __future__ import annotations

import operator
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from mixlens.errors import InvalidInput, no_such
from mixlens.text.tokens import Segment, TokenRow, resolve_positions

PROMPT, ANSWER, OTHER = "prompt", "answer", "(other)"
FIRST = "(first token)"
RESERVED = (ANSWER, OTHER, FIRST)  # reserved names
CHAT = "chat"  # a prompt from messages whose turns are unknown

Spans = list[tuple[str, int, int]]
"""A list of (name, start, stop), where stop is the character after the last."""

By = str | Mapping[str, tuple[int, int] | str] | Spans | None
"""How to divide a text: "sentences", "paragraphs", "turns", or named segments with their character
span or their text. None keeps the segments that the text already has.
"""

_MARK = re.compile(r"^===[ \t]*([^=\s](?:.*[^=\s])?)[ \t]*===[ \t]*$\n?", re.MULTILINE)
_SENTENCE = re.compile(r"\S.*?(?:[.!?…]+[\"'”’)\]]*(?=\s|$)|[。！？।؟]+|(?=[\r\n])|$)", re.DOTALL)
_LINE_END = r"(?:\r\n|\n|\r(?!\n))"
_PARAGRAPH = re.compile(rf"\S.*?(?={_LINE_END}[ \t]*{_LINE_END}|\s*\Z)", re.DOTALL)
_PATTERNS = {"sentences": _SENTENCE, "paragraphs": _PARAGRAPH}
KINDS = (*_PATTERNS, "turns")


def read_marks(text: str) -> tuple[str, Spans]:
    """Return a prompt without its marker lines, and the segments that they define.

    Blank segments are dropped. Line endings are converted to Unix style.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    marks = list(_MARK.finditer(text))
    _check_names([mark[1] for mark in marks])
    plain, spans, end, name = "", list[tuple[str, int, int]](), 0, ""
    for mark in [*marks, None]:
        piece = text[end : len(text) if mark is None else mark.start()]
        if name and piece.strip():
            spans.append((name, len(plain), len(plain) + len(piece)))
        plain += piece
        if mark is not None:
            end, name = mark.end(), mark[1]
    return plain, spans


def split_segments(row: TokenRow, by: By = None) -> tuple[Segment, ...]:
    """Divide a text into segments, in order. Every token belongs to one of them."""
    if isinstance(by, str) and by == "turns":
        return _turns(row)
    if by is None:
        if row.segments is None:
            raise InvalidInput(
                "This text has no named segments. Choose sentences or paragraphs, or name its"
                " parts."
            )
        return row.segments
    if isinstance(by, str) and by not in KINDS:
        raise InvalidInput(no_such("kind of segments", by, KINDS))
    if row.text is None or row.offsets is None:
        raise InvalidInput(
            "Segments need an offset mapping, but this text has none. Measure a text with a fast "
            "tokenizer."
        )
    spans = _spans(row, by)
    segments = token_segments(row, spans)
    assert segments is not None
    segment_names = {part.name for part in segments}
    for name, start, stop in spans:
        if name not in segment_names and not isinstance(by, str):
            raise InvalidInput(
                f"No token starts in segment {name!r} (characters {start} to {stop}), so it has "
                "no scores. Make it larger, or drop it."
            )
    return segments


def _turns(row: TokenRow) -> tuple[Segment, ...]:
    segments = row.segments or ()
    names = {part.name for part in segments}
    if names <= {PROMPT, ANSWER, OTHER}:
        raise InvalidInput("This text has no turns. Pass the messages of a chat.")
    if CHAT in names:
        reason = (
            "the tokenizer has no offset mapping. Use a fast tokenizer."
            if row.offsets is None
            else "the chat template changes the messages, so they cannot be found in the prompt. "
            "Use sentences or paragraphs."
        )
        raise InvalidInput(f"The turns of this chat are unknown: {reason}")
    return segments


def token_segments(row: TokenRow, spans: Spans | None) -> tuple[Segment, ...] | None:
    """Return the token ranges of named spans and of the text between them, or None if the spans are
    unknown.
    """
    if spans is None or row.text is None or row.offsets is None:
        return None
    spans = sorted(spans, key=lambda span: span[1:])
    require_apart(spans, len(row.text))
    firsts = [first for _, first, _ in spans]
    answer = next((part.start for part in row.segments or () if part.name == ANSWER), len(row))
    names = []
    for number, (start, stop) in enumerate(row.offsets):
        blank = len(row.text[start:stop]) - len(row.text[start:stop].lstrip())
        at = start + blank if blank < stop - start else start
        name, _, last = spans[max(0, bisect_right(firsts, at) - 1)] if spans else (OTHER, 0, 0)
        covers = start < stop or start > 0  # a special token outside the text has the span (0, 0)
        inside = covers and at < last and at >= firsts[0]
        names.append(name if inside else ANSWER if number >= answer else OTHER)
    segments = []
    for name, places in groupby(range(len(names)), lambda place: names[place]):
        positions = list(places)
        segments.append(Segment(name, positions[0], positions[-1] + 1))
    return tuple(segments)


def _spans(row: TokenRow, by: str | Mapping[str, tuple[int, int] | str] | Spans) -> Spans:
    assert row.text is not None
    assert row.offsets is not None
    answer = next((part.start for part in row.segments or () if part.name == ANSWER), None)
    end = len(row.text) if answer is None else row.offsets[answer][0]
    return spans_of(row.text, by, end)


def spans_of(
    text: str, by: str | Mapping[str, tuple[int, int] | str] | Spans, end: int | None = None
) -> Spans:
    """Return the named parts of a text.

    Sentences and paragraphs are only searched before the character `end`.
    """
    if not isinstance(by, str):
        return [
            (name, *_span(name, bounds_or_text, text)) for name, bounds_or_text in named_parts(by)
        ]
    if by not in _PATTERNS:
        raise InvalidInput(no_such("kind of segments", by, tuple(_PATTERNS)))
    matches = list(_PATTERNS[by].finditer(text[:end]))
    return [(f"{by[:-1]} {i}", piece.start(), piece.end()) for i, piece in enumerate(matches, 1)]


def named_parts(by: Any) -> list[tuple[str, Any]]:
    """Return each segment's name with its text or its character range. Raise `InvalidInput` if the
    segments have no names.
    """
    if isinstance(by, Mapping):
        parts = list(by.items())
    elif isinstance(by, list) and all(isinstance(s, (tuple, list)) and len(s) == 3 for s in by):
        parts = [(name, (start, stop)) for name, start, stop in by]
    else:
        raise InvalidInput(
            "Segments need names. Pass a kind, or each name with its text or its characters, "
            "as in {'first': (0, 20)}."
        )
    _check_names([name for name, _ in parts])
    return parts


def _check_names(names: Sequence[Any]) -> None:
    """Check that all names are strings, that they are unique, and that none is reserved."""
    for number, name in enumerate(names):
        if not isinstance(name, str):
            raise InvalidInput(f"{name!r} is not a segment name. Pass a string.")
        if name in RESERVED:
            raise InvalidInput(f"The segment name {name!r} is reserved. Choose another one.")
        if name in names[:number]:
            raise InvalidInput(f"Duplicate segment name {name!r}. Give each segment its own name.")


def _span(name: str, bounds_or_text: Any, text: str) -> tuple[int, int]:
    if not isinstance(bounds_or_text, str):
        try:
            start, stop = map(operator.index, bounds_or_text)
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                f"Segment {name!r} is {bounds_or_text!r}. Pass its text, or its character span "
                "(start, end), where end is exclusive."
            ) from error
        return start, stop
    count = text.count(bounds_or_text) if bounds_or_text else 0
    if count != 1:
        raise InvalidInput(
            f"The text of segment {name!r} is "
            f"{'not in' if not count else f'{count} times in'} the prompt. Pass its "
            "character span (start, end) instead."
        )
    return text.index(bounds_or_text), text.index(bounds_or_text) + len(bounds_or_text)


def group_tokens(
    segments: tuple[Segment, ...], *, sink: bool, separate_first: bool = True
) -> dict[str, list[int]]:
    """Return the tokens of each segment, by name.

    With `separate_first`, the first token does not belong to any named segment. It then forms a
    separate segment if `sink` is set, and is left out otherwise.
    """
    groups: dict[str, list[int]] = {FIRST: [0]} if sink else {}
    for name, start, stop in segments:
        places = [place for place in range(start, stop) if place or not separate_first]
        if places:
            groups.setdefault(name, []).extend(places)
    return groups


def segment_positions(
    row: TokenRow, by: By | Sequence[Sequence[int]] = None
) -> dict[str, list[int]]:
    """Return the tokens of each segment, by name.

    `by` may be anything that `MixingMaps.segments` accepts; the first token is then a separate
    segment. It may also be a list with the positions of each segment. These segments are called
    "segment 1", "segment 2" and so on, and may overlap.
    """
    if by is None or isinstance(by, (str, Mapping)):
        return group_tokens(split_segments(row, by), sink=True)
    if isinstance(by, Sequence) and by and all(_is_span(part) for part in by):
        return group_tokens(split_segments(row, list(by)), sink=True)  # type: ignore[arg-type]
    if not isinstance(by, Sequence) or not by:
        raise InvalidInput(
            f"segments={by!r} defines no segments. Pass a kind such as 'sentences', names with"
            " their text, or a list with the positions of each segment."
        )
    return {f"segment {number}": _positions(part, len(row)) for number, part in enumerate(by, 1)}


def _is_span(part: Any) -> bool:
    return isinstance(part, (tuple, list)) and len(part) == 3 and isinstance(part[0], str)


def _positions(part: Any, length: int) -> list[int]:
    try:
        places = resolve_positions([operator.index(place) for place in part], length)
    except (TypeError, IndexError) as error:
        raise InvalidInput(
            f"Segment {part!r} is not a list of token positions. Pass integers from 0 to"
            f" {length - 1}."
        ) from error
    if not places or len(set(places)) < len(places):
        raise InvalidInput(
            f"Segment {part!r} is empty or repeats a token. Pass each position once."
        )
    return places


def require_apart(spans: Sequence[tuple[str, int, int]], length: int) -> None:
    """Raise `InvalidInput` if sorted spans overlap, are empty, or reach beyond the text."""
    end, before = 0, ""
    for name, start, stop in spans:
        if not 0 <= start < stop <= length:
            raise InvalidInput(
                f"Segment {name!r} ({start}–{stop}) is empty or out of range. The text has {length}"
                " characters."
            )
        if start < end:
            raise InvalidInput(f"Segments {before!r} and {name!r} overlap. Shorten one of them.")
        end, before = stop, name
