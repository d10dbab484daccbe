"""Describe tokens for the viewer: the text of each token, and the words and segments that tokens
form.

The text is divided into tokens here and not in the page, because Python counts characters and
JavaScript counts UTF-16 code units.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mixlens.errors import InvalidInput
from mixlens.maps.tables import well_formed
from mixlens.text.segments import CHAT, OTHER, PROMPT
from mixlens.text.tokens import Segment, TokenRow
from mixlens.text.words import words

_SHORTEST, _LONGEST = 24, 96  # tokens in a segment
_SEGMENTED_FROM = 300  # tokens; a shorter text is shown completely
Named = tuple[int, int] | tuple[int, int, str]
"""The first token, the one after the last, and the name of a segment if it has one."""

_ENDS = (".", "!", "?", "。", "！", "？", "؟", "।", "…")


def text_of(row: TokenRow) -> dict[str, Any]:
    """Return the entry of one text in a payload's `texts`."""
    ranges = _word_ranges(row)
    token_texts, gaps = (
        _from_text(row) if row.text is not None and row.offsets else _from_labels(row)
    )
    if ranges is not None and not (row.text is not None and row.offsets):
        starts = {start for start, _ in ranges}
        gaps = [" " if i in starts and i else "" for i in range(len(row))]
    return {
        "labels": [well_formed(label) for label in row.labels],
        "shown": token_texts,
        "gaps": gaps,
        "special": [int(mark) for mark in row.special or (False,) * len(row)],
        "words": ranges,
        "segments": None if _is_numbered(row) else _segments(row, token_texts, gaps),
        "seconds": row.seconds,
    }


def patch_tokens(row: TokenRow) -> set[int]:
    """Return the positions of tokens that are image patches.

    The text contains only a placeholder for a patch.
    """
    return {
        grid.first + line * grid.stride + column
        for picture in row.pictures
        for grid in picture.grids
        for line in range(grid.rows)
        for column in range(grid.columns)
    }


def _is_numbered(row: TokenRow) -> bool:
    """Return whether the tokens are audio frames or image patches, which have no text."""
    if row.seconds is not None:
        return True
    return row.labels == TokenRow.numbered(len(row)).labels


def _word_ranges(row: TokenRow) -> list[tuple[int, int]] | None:
    """Return the token range of each word.

    Return None if the words are unknown, or if each token is a word.
    """
    try:
        ranges, _ = words(row)
    except InvalidInput:
        return None
    return ranges if len(ranges) < len(row) else None


def _from_text(row: TokenRow) -> tuple[list[str], list[str]]:
    """Return the text of each token, and the text between it and the previous token.

    A token that adds no text (a special token, or a later byte of a character) is shown by its
    label.
    """
    assert row.text is not None
    assert row.offsets is not None
    token_texts, gaps, end = [], [], 0
    patches = patch_tokens(row)
    for place, (label, (start, stop)) in enumerate(zip(row.labels, row.offsets, strict=True)):
        start = max(start, end)
        if start >= stop or place in patches:
            token_texts.append(well_formed(label))
            gaps.append("")
            end = max(end, stop) if place in patches else end  # the placeholder is not shown
            continue
        piece = row.text[start:stop]
        core = piece.lstrip() or piece
        gaps.append(well_formed(row.text[end:start] + piece[: len(piece) - len(core)]))
        token_texts.append(well_formed(core))
        end = stop
    return token_texts, gaps


def _from_labels(row: TokenRow) -> tuple[list[str], list[str]]:
    labels = [well_formed(label) for label in row.labels]
    token_texts = [label.removeprefix("##").lstrip("Ġ▁") or label for label in labels]
    return token_texts, ["", *[" "] * (len(row) - 1)][: len(row)]


def _segments(row: TokenRow, token_texts: Sequence[str], gaps: Sequence[str]) -> list[Named] | None:
    """Return the segments of a text. A long text without segments is divided into sentences."""
    segments_or_all = row.segments or (Segment(PROMPT, 0, len(row)),)
    segments: list[Named] = []
    for name, start, stop in segments_or_all:
        if name in (PROMPT, CHAT) and len(row) >= _SEGMENTED_FROM:
            segments += _sentences(token_texts, gaps, start, stop)
        else:
            segments.append((start, stop) if name == OTHER else (start, stop, well_formed(name)))
    return segments if len(segments) > 1 else None


def _sentences(
    token_texts: Sequence[str], gaps: Sequence[str], start: int, stop: int
) -> Iterator[tuple[int, int]]:
    """Yield ranges of tokens that end at the end of a line or a sentence."""
    for i in range(start + 1, stop + 1):
        length = i - start
        ends = (
            i == stop
            or "\n" in gaps[i]
            or "\n" in token_texts[i - 1]
            or token_texts[i - 1].endswith(_ENDS)
        )
        if i == stop or length >= _LONGEST or (ends and length >= _SHORTEST):
            yield start, i
            start = i
