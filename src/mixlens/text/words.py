"""Find the tokens of each word, and merge their scores.

A word is a run of characters without spaces. Punctuation at either end of a word is split off, and
each punctuation mark is a separate word ("..." is a single mark). Tokens are aligned with the text
by the tokenizer's offset mapping. If a token overlaps two words, the two words are merged. A
special token is always separate, even if it occurs in the text ([MASK]). An unknown token belongs
to the word whose characters it covers. Patches of an image are also separate, although they share
the characters of a placeholder. A blank token belongs to the next word (SentencePiece may split off
"▁"), or to the previous one if there is no next word. A line break is separate.

Without offsets, the text is reconstructed from markers in the tokens: "##" (WordPiece), "▁"
(SentencePiece), "Ġ" (byte-level BPE), "</w>" and "@@" (older BPE). WordPiece markers do not show
whether punctuation was attached to a word, so "don't" becomes three words.

By default, the scores of a word are summed over its tokens as sources and averaged over its tokens
as targets (as Kobayashi et al. 2020 do for alignments). This keeps the sum of each target's scores.
"""

from __future__ import annotations

import itertools
import operator
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mixlens.errors import InvalidInput
from mixlens.text.tokens import Segment, TokenRow

Span = tuple[int, int]
"""A range of positions: the first, and the one after the last."""

Merge = tuple[list[Span], TokenRow]
"""Token ranges, and the merged tokens."""

_UNKNOWN = "\ufffd"  # stands for an unknown character, or for a part of one

REDUCTIONS = ("sum", "mean", "max", "first")


def words(row: TokenRow) -> Merge:
    """Return the token range of each word, and a `TokenRow` with one token for each word. Audio
    frames are not merged.
    """
    if row.seconds is not None:
        return [(i, i + 1) for i in range(len(row))], row
    if row.text is not None and row.offsets is not None:
        text, places = row.text, list(row.offsets)
    else:
        text, places = _spell_out(row)
    alone = _alone(row, text, places)
    ranges = _ranges(text, places, alone)
    return ranges, _merge_row(row, ranges, text, places, alone, relabel=True)


def as_span(value: Any) -> Span:
    """Return a pair of integers, or raise `InvalidInput`."""
    try:
        start, stop = (operator.index(place) for place in value)
    except (TypeError, ValueError, RuntimeError):
        raise InvalidInput(
            f"{value!r} is not a span. Pass pairs such as (2, 5), from the first token to the one"
            " after the last."
        ) from None
    return start, stop


def spans(row: TokenRow, token_ranges: Sequence[Span]) -> Merge:
    """Merge the given token ranges, and leave all other tokens separate.

    Return all ranges, and a `TokenRow` of the merged tokens.
    """
    ranges: list[Span] = []
    end = 0
    for start, stop in sorted(map(as_span, token_ranges)):
        if not 0 <= start < stop <= len(row):
            raise InvalidInput(
                f"Span ({start}, {stop}) is empty or out of range. The text has {len(row)} tokens."
            )
        if start < end:
            raise InvalidInput(
                f"Span ({start}, {stop}) overlaps the one before it, which ends at {end}. "
                "Shorten one of them."
            )
        ranges += [(i, i + 1) for i in range(end, start)] + [(start, stop)]
        end = stop
    ranges += [(i, i + 1) for i in range(end, len(row))]
    if row.text is not None and row.offsets is not None:
        text, places = row.text, list(row.offsets)
    else:
        text, places = "", [(0, 0)] * len(row)
    return ranges, _merge_row(row, ranges, text, places, _alone(row, text, places), relabel=False)


def merge_groups(
    values: np.ndarray, groups: Sequence[Sequence[int]], axis: int, how: str
) -> np.ndarray:
    """Reduce the entries of each group along an axis to their sum, mean, maximum or first entry,
    depending on `how`.
    """
    if how not in REDUCTIONS:
        raise InvalidInput(f"Unknown reduction {how!r}. Choose one of: {', '.join(REDUCTIONS)}.")
    if how == "first":
        return values.take([group[0] for group in groups], axis)
    parts = [
        getattr(values.take(list(group), axis).astype(np.float64), how)(axis) for group in groups
    ]
    return np.stack(parts, axis).astype(values.dtype)


# ---------------------------------------------------------------------------------- tokens to words


def _alone(row: TokenRow, text: str, places: Sequence[Span]) -> list[bool]:
    """Return a mask of the tokens that must not be merged with others.

    These tokens are not part of the text, occur in the text as special tokens, or share a
    placeholder (patches of an image).
    """
    alone = []
    for i, (label, mark, place) in enumerate(zip(row.labels, _special(row), places, strict=True)):
        start, stop = place
        outside = start == stop and (mark or label.strip("▁Ġ ") != "")
        shares = place in (*places[max(0, i - 1) : i], *places[i + 1 : i + 2])
        alone.append(outside or (mark and (shares or text[start:stop].strip() == label)))
    return alone


def _ranges(text: str, places: Sequence[Span], alone: Sequence[bool]) -> list[Span]:
    words_of = _words_of_characters(
        text, [place for place, single in zip(places, alone, strict=True) if single]
    )
    kinds: list[str] = []  # kinds of the ranges so far: "word", "blank" or "other"
    starts: list[int] = []
    reach = -1  # the last word of the text that the open range overlaps
    for i, ((start, stop), single) in enumerate(zip(places, alone, strict=True)):
        on = [word for word in words_of[start:stop] if word >= 0]
        kind = "word" if on else "other" if single or text[start:stop].strip(" ") else "blank"
        waits = kinds[-1:] == ["blank"] and kind != "other"  # a blank waits for the next word
        if waits:
            kinds[-1] = kind
        elif not on or min(on) > reach:
            kinds.append(kind)
            starts.append(i)
        reach = max(on, default=-1)
    stranded = {
        i for i, pair in enumerate(itertools.pairwise(kinds), 1) if pair == ("word", "blank")
    }  # no word followed
    starts = [start for i, start in enumerate(starts) if i not in stranded]
    return list(zip(starts, [*starts[1:], len(places)], strict=True))


def _words_of_characters(text: str, hidden: Sequence[Span]) -> list[int]:
    """Return the index of the word to which each character belongs, or -1 for spaces and special
    tokens.
    """
    characters = list(text)
    for start, stop in hidden:
        characters[start:stop] = " " * (stop - start)
    numbers = [-1] * len(text)
    runs = (run.span() for run in re.finditer(r"\S+", "".join(characters)))
    for number, (start, stop) in enumerate(
        itertools.chain.from_iterable(_without_punctuation(text, *run) for run in runs)
    ):
        numbers[start:stop] = [number] * (stop - start)
    return numbers


def _without_punctuation(text: str, start: int, stop: int) -> Iterator[Span]:
    core = [i for i in range(start, stop) if not unicodedata.category(text[i]).startswith("P")]
    first, last = (core[0], core[-1] + 1) if core else (stop, stop)
    for a, b in ((start, first), (first, last), (last, stop)):
        if (a, b) == (first, last):
            if a < b:
                yield a, b
            continue
        for _, same in itertools.groupby(range(a, b), key=lambda i: text[i]):
            marks = list(same)
            yield marks[0], marks[-1] + 1


def _merge_row(
    row: TokenRow,
    ranges: Sequence[Span],
    text: str,
    places: Sequence[Span],
    alone: Sequence[bool],
    *,
    relabel: bool,
) -> TokenRow:
    labels, offsets = [], []
    for a, b in ranges:
        inside = [place for place in places[a:b] if place[0] < place[1]]
        start, stop = (min(p[0] for p in inside), max(p[1] for p in inside)) if inside else (0, 0)
        piece = text[start:stop]
        if piece.strip():  # a line break keeps its position
            start += len(piece) - len(piece.lstrip())
            stop -= len(piece) - len(piece.rstrip())
        offsets.append((start, stop))
        label = _printable(piece.strip())
        keep = any(alone[a:b]) or not label or (b - a == 1 and (not relabel or label == _UNKNOWN))
        labels.append(" ".join(row.labels[a:b]) if keep else label)
    special = tuple(all(alone[a:b]) for a, b in ranges)
    segments = _merge_segments_of(
        row, ranges, [text[start:stop].isspace() for start, stop in places]
    )
    if row.text is None or row.offsets is None:
        return TokenRow(tuple(labels), special=special, segments=segments)
    return TokenRow(tuple(labels), row.text, tuple(offsets), special, segments)


def _merge_segments_of(
    row: TokenRow, ranges: Sequence[Span], blank: Sequence[bool]
) -> tuple[Segment, ...] | None:
    """Return the segments of the merged tokens.

    A merged token belongs to the segment of its first token that is not blank.
    """
    if row.segments is None:
        return None
    firsts = [next((i for i in range(a, b) if not blank[i]), a) for a, b in ranges]
    segments = [
        Segment(name, bisect_left(firsts, start), bisect_left(firsts, stop))
        for name, start, stop in row.segments
    ]
    return tuple(part for part in segments if part.start < part.stop)


def _printable(text: str) -> str:
    """Replace surrogates, which stand for individual bytes of a character and cannot be printed."""
    return re.sub("[\ud800-\udfff]", _UNKNOWN, text)


# --------------------------------------------------------------------------------- tokens to a text


def _special(row: TokenRow) -> tuple[bool, ...]:
    return row.special or (False,) * len(row)


def _spell_out(row: TokenRow) -> tuple[str, list[Span]]:
    """Reconstruct the text and the character span of each token from the tokens' markers.

    An unknown token starts a new word, because it may hide the start of a word.
    """
    unknown = [
        mark and label in ("[UNK]", "<unk>")
        for label, mark in zip(row.labels, _special(row), strict=True)
    ]
    special = [mark and not other for mark, other in zip(_special(row), unknown, strict=True)]
    plain = [label for label, mark in zip(row.labels, _special(row), strict=True) if not mark]
    bytes_of_tokens = _spelling(plain)
    if bytes_of_tokens is None:
        if any(not a and not b for a, b in itertools.pairwise(special)):
            raise InvalidInput(
                "Words need the position of each token in the text, but these tokens have "
                "neither offsets nor a marker (##, ▁, Ġ, </w>, @@). Measure a text with a "
                "fast tokenizer."
            )
        bytes_of_tokens = iter(label.encode() for label in plain)  # nothing to merge
    spelt = []
    for outside, foreign in zip(special, unknown, strict=True):
        spelt.append(
            b"" if outside else f" {_UNKNOWN}".encode() if foreign else next(bytes_of_tokens)
        )
    return _place_tokens(spelt)


def _spelling(labels: Sequence[str]) -> Iterator[bytes] | None:
    """Return the text of each token, or None if no token has a marker."""
    if any(label.startswith(("Ġ", "Ċ")) for label in labels):
        alphabet = _byte_alphabet()
        return (
            bytes(alphabet[c] for c in label) if set(label) <= alphabet.keys() else label.encode()
            for label in labels
        )
    if any(label.startswith("▁") for label in labels):
        byte = re.compile(
            "<0x([0-9A-F]{2})>"
        )  # characters outside the vocabulary are written as bytes
        matches = ((byte.fullmatch(label), label) for label in labels)
        return (
            bytes.fromhex(match[1]) if match else label.replace("▁", " ").encode()
            for match, label in matches
        )
    if any(label.startswith("##") for label in labels):
        return ((label[2:] if label.startswith("##") else " " + label).encode() for label in labels)
    for mark, inside, last in (("</w>", "", " "), ("@@", " ", "")):
        if any(label.endswith(mark) for label in labels):
            return (
                (label.removesuffix(mark) + (last if label.endswith(mark) else inside)).encode()
                for label in labels
            )
    return None


def _byte_alphabet() -> dict[str, int]:
    """Return the byte alphabet of byte-level BPE.

    Printable Latin-1 characters stand for themselves; all other bytes use code points from 256 on.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other_bytes = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(256 + i): byte for i, byte in enumerate(other_bytes)
    }


def _place_tokens(spelt: Sequence[bytes]) -> tuple[str, list[Span]]:
    """Decode the concatenated bytes of the tokens, and return the text with the character span of
    each token.

    If the bytes of one character belong to several tokens, each of these covers the whole
    character.
    """
    text = b"".join(spelt).decode("utf-8", "surrogateescape")
    character = [i for i, c in enumerate(text) for _ in c.encode("utf-8", "surrogateescape")]
    places, end = [], 0
    for piece in spelt:
        start, end = end, end + len(piece)
        at = len(text) if start == len(character) else character[start]
        places.append((at, character[end - 1] + 1) if piece else (at, at))
    return text, places
