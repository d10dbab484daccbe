"""Find words in a text.

A word is matched only as a whole word.
"""

from __future__ import annotations

from mixlens.datasets.examples import Span
from mixlens.errors import InvalidInput


def whole_words(text: str, word: str) -> list[Span]:
    """Return the spans at which `word` occurs in the text as a whole word."""
    places, start = [], text.find(word) if word else -1
    while start >= 0:
        span = (start, start + len(word))
        if not cuts_a_word(text, span):
            places.append(span)
        start = text.find(word, start + 1)
    return places


def check_word_span(text: str, span: Span, what: str) -> Span:
    """Return the span, or raise an error unless it covers whole words of the text."""
    first, last = span
    if not 0 <= first < last <= len(text):
        raise InvalidInput(
            f"the {what} {first}:{last} is outside the text ({len(text)} characters)"
        )
    if text[first:last] != text[first:last].strip():
        raise InvalidInput(
            f"the {what} {first}:{last} begins or ends with a space: {text[first:last]!r}"
        )
    if cuts_a_word(text, span):
        raise InvalidInput(f"the {what} {first}:{last} splits a word: {text[first:last]!r}")
    return span


def cuts_a_word(text: str, span: Span) -> bool:
    """Return whether the span begins or ends inside a word.

    This is only checked in scripts that put spaces between words.
    """
    return any(
        0 < edge < len(text) and _letter(text[edge - 1]) and _letter(text[edge]) for edge in span
    )


def _letter(character: str) -> bool:
    return character.isalnum() and character < "\u0530"  # Latin, Greek, Cyrillic
