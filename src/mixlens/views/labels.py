"""Turn tokens into readable labels.

The space markers of a vocabulary become a raised dot, byte-level tokens are decoded to letters, and
control characters (such as line breaks or direction marks) are replaced with visible symbols or
their code points.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from mixlens.text.tokens import TokenRow

LONGEST = 26
WORD_MARKS = ("Ġ", "▁")  # space markers of byte-level and SentencePiece vocabularies
_LAST_BYTE = "\u0143"  # the letters by which byte-level vocabularies write bytes
_SIGNS = {"\n": "⏎", "\t": "⇥", "\r": "␍"}
_JOINERS = "\u200c\u200d"  # a part of the spelling of Persian, Hindi and emoji


def printable(label: str) -> str:
    """Return a readable label, with a dot for space markers and symbols for line breaks."""
    for mark in WORD_MARKS:
        label = label.replace(mark, "·")
    return visible(label) or "∅"


def visible(text: str) -> str:
    """Replace unprintable characters with symbols or with their code points, such as `‹U+202E›`."""
    return "".join(_SIGNS.get(character) or _escape_character(character) for character in text)


def _escape_character(character: str) -> str:
    hidden = unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    return f"‹U+{ord(character):04X}›" if hidden and character not in _JOINERS else character


def token_labels(row: TokenRow) -> list[str]:
    """Return a readable label for each token.

    The label is the spelling of the token in the vocabulary. If the spelling consists of encoded
    bytes, the characters of the token in the text are used instead.
    """
    return [printable(_spell_token(row, number)) for number in range(len(row))]


def _spell_token(row: TokenRow, number: int) -> str:
    label = row.labels[number]
    if row.text is None or row.offsets is None or (row.special and row.special[number]):
        return label
    start, stop = row.offsets[number]
    piece = row.text[start:stop]
    bare = label.replace("Ġ", " ").strip()
    of_bytes = not label.isascii() and max(label) <= _LAST_BYTE and bare != piece.strip()
    if not of_bytes or not piece.strip():
        return label
    return ("·" if piece[0].isspace() or label[0] == "Ġ" else "") + piece.strip()


def shorten_label(label: str, longest: int = LONGEST) -> str:
    """Shorten a label in the middle if it is too long for an axis."""
    if len(label) <= longest:
        return label
    half = (longest - 1) // 2
    return f"{label[: longest - 1 - half]}…{label[-half:]}"


def select_ticks(labels: Sequence[str], most: int) -> tuple[list[int], list[str], str]:
    """Select tick labels for an axis that has room for only `most` of them.

    Return the positions of the ticks, the labels, and a note to append to the name of the axis.
    """
    step = -(-len(labels) // max(1, most))
    places = list(range(0, len(labels), step))
    names = [shorten_label(labels[place]) for place in places]
    if step == 1:
        return places, names, ""
    ordinal = {2: "2nd", 3: "3rd"}.get(step, f"{step}th")
    numbered = [f"{place} {name}" for place, name in zip(places, names, strict=True)]
    return places, numbered, f", every {ordinal} token labelled"


def is_right_to_left(text: str) -> bool:
    """Return whether the text is right-to-left. This depends on the first letter that has a
    direction.
    """
    for character in text:
        direction = unicodedata.bidirectional(character)
        if direction in ("L", "R", "AL"):
            return direction != "L"
    return False
