"""Assign parts of speech to tokens, from the tags of words.

A text has one tag per word. Words are split at spaces, unless the corpus defines them (CoNLL-U). A
token has the tag of the word in which it begins.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mixlens.datasets.rows import TextRow
from mixlens.errors import InvalidInput
from mixlens.runs.mixtures import Classes, Mixtures
from mixlens.text.tokens import TokenRow

Words = Sequence[tuple[int, int]]
"""The character span of each word."""

SPECIAL, NONE = "special", "none"


def token_tags(row: TokenRow, tags: Sequence[str], words: Words | None = None) -> list[str]:
    """Return a tag for each token. Special tokens and characters outside words have their own
    tag.
    """
    if row.text is None or row.offsets is None:
        raise InvalidInput(
            "The tokenizer has no offset mapping, which part-of-speech tags need. Use a fast"
            " tokenizer."
        )
    by_character = [NONE] * (len(row.text) + 1)
    words = words or [match.span() for match in re.finditer(r"\S+", row.text)]
    if len(words) != len(tags):
        raise InvalidInput(
            f"{len(tags)} tags do not match the {len(words)} words of the text. Pass one tag "
            "per word."
        )
    for (start, stop), tag in zip(words, tags, strict=True):
        by_character[start:stop] = [tag] * (stop - start)
    special = row.special or (False,) * len(row)
    return [
        SPECIAL if mark else _begins_in(by_character, *place)
        for mark, place in zip(special, row.offsets, strict=True)
    ]


def _begins_in(by_character: Sequence[str], start: int, stop: int) -> str:
    """Return whether a token begins in a word. Some tokens begin with the space before their
    word.
    """
    return next((tag for tag in by_character[start:stop] if tag != NONE), NONE)


def tag_classes(mixtures: Mixtures, texts: Sequence[TextRow]) -> Classes | None:
    """Return the parts of speech of a batch, or None if it has none or its targets are not its
    tokens.
    """
    if not mixtures.same_tokens or not texts or texts[0].tags is None:
        return None
    by_text = [
        token_tags(row, text.tags or (), text.words)
        for row, text in zip(mixtures.sources, texts, strict=True)
    ]
    names = sorted({tag for row in by_text for tag in row})
    numbers = {name: number for number, name in enumerate(names)}
    of_tokens = [[numbers[tag] for tag in row] for row in by_text]
    return mixtures.classes(names, of_tokens, of_tokens)
