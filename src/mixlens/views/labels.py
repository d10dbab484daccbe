"""Turn tokens into readable labels.

Space markers of a vocabulary become a raised dot, bytes of a letter become the letter, and control
characters (line breaks, direction marks) are written by name.
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
    """Return one label: space markers become a dot, line breaks a sign."""
    for mark in WORD_MARKS:
        label = label.replace(mark, "·")
    return visible(label) or "∅"


def visible(text: str) -> str:
    """Return the text with unprintable characters by name: `‹U+202E›`."""
    return "".join(_SIGNS.get(character) or _shown(character) for character in text)


def _shown(character: str) -> str:
    hidden = unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    return f"‹U+{ord(character):04X}›" if hidden and character not in _JOINERS else character


def token_labels(row: TokenRow) -> list[str]:
    """Return a label for each token: as its vocabulary spells it, or as the text does if that
    spelling is of bytes.
    """
    return [printable(_spelled(row, number)) for number in range(len(row))]


def _spelled(row: TokenRow, number: int) -> str:
    label = row.labels[number]
    if row.text is None or row.offsets is None or (row.special and row.special[number]):
        return label
    start, stop = row.offsets[number]
    written = row.text[start:stop]
    bare = label.replace("Ġ", " ").strip()
    of_bytes = not label.isascii() and max(label) <= _LAST_BYTE and bare != written.strip()
    if not of_bytes or not written.strip():
        return label
    return ("·" if written[0].isspace() or label[0] == "Ġ" else "") + written.strip()


def shortened(label: str, longest: int = LONGEST) -> str:
    """Return the label, cut in the middle if it is too long for an axis."""
    if len(label) <= longest:
        return label
    half = (longest - 1) // 2
    return f"{label[: longest - 1 - half]}…{label[-half:]}"


def named_ticks(labels: Sequence[str], most: int) -> tuple[list[int], list[str], str]:
    """Return the labelled positions of an axis on which only `most` labels fit, and a note for the
    name of the axis.
    """
    step = -(-len(labels) // max(1, most))
    places = list(range(0, len(labels), step))
    names = [shortened(labels[place]) for place in places]
    if step == 1:
        return places, names, ""
    ordinal = {2: "2nd", 3: "3rd"}.get(step, f"{step}th")
    numbered = [f"{place} {name}" for place, name in zip(places, names, strict=True)]
    return places, numbered, f", every {ordinal} token labelled"


def is_right_to_left(text: str) -> bool:
    """Return whether the text is right-to-left, by its first letter that has a direction."""
    for character in text:
        direction = unicodedata.bidirectional(character)
        if direction in ("L", "R", "AL"):
            return direction != "L"
    return False
