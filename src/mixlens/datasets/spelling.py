"""Tokenised text in plain spelling: «role @-@ playing , is n't it ?» is «role-playing, isn't it?».

Sub-word tokenizers know words by the space before them, so a model must see the spelling that it
was trained on.
"""

from __future__ import annotations

from collections.abc import Sequence

from mixlens.datasets.examples import Span

NO_SPACE_BEFORE = frozenset(
    [
        ",",
        ".",
        ";",
        ":",
        "!",
        "?",
        "%",
        ")",
        "]",
        "}",
        "n't",
        "'s",
        "'re",
        "'ve",
        "'ll",
        "'d",
        "'m",
        "'",
        "''",
        "…",
    ]
)
NO_SPACE_AFTER = frozenset(["(", "[", "{", "$", "£", "€", "``"])
WRITTEN = {"``": '"', "''": '"', "-LRB-": "(", "-RRB-": ")", "@-@": "-", "@,@": ",", "@.@": "."}


def spelled(words: Sequence[str]) -> tuple[str, list[Span]]:
    """The text, and where each word is in it."""
    text, spans, joined, quoted = "", [], True, False
    for word in words:
        opens, closes = (
            word in NO_SPACE_AFTER or word == "-LRB-",
            word in NO_SPACE_BEFORE or word == "-RRB-",
        )
        if word == '"':  # opening and closing look the same: they take turns
            opens, closes, quoted = not quoted, quoted, not quoted
        inside = word in ("@-@", "@,@", "@.@")
        if not (joined or closes or inside):
            text += " "
        written = WRITTEN.get(word, word)
        spans.append((len(text), len(text) + len(written)))
        text += written
        joined = opens or inside
    return text, spans
