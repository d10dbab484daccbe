"""Convert tokenised text to plain spelling: "role @-@ playing , is n't it ?" becomes "role-playing,
isn't it?".

Sub-word tokenizers encode the space before a word, so a model needs texts in the spelling of its
training data.
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


def join_words(words: Sequence[str]) -> tuple[str, list[Span]]:
    """Return the plain text and the span of each word."""
    text, spans, is_joined, quoted = "", [], True, False
    for word in words:
        opens, closes = (
            word in NO_SPACE_AFTER or word == "-LRB-",
            word in NO_SPACE_BEFORE or word == "-RRB-",
        )
        if word == '"':  # opening and closing quotes look the same, so they alternate
            opens, closes, quoted = not quoted, quoted, not quoted
        inside = word in ("@-@", "@,@", "@.@")
        if not (is_joined or closes or inside):
            text += " "
        spelling = WRITTEN.get(word, word)
        spans.append((len(text), len(text) + len(spelling)))
        text += spelling
        is_joined = opens or inside
    return text, spans
