"""Read CoNLL-U files of Universal Dependencies, for the parts of speech (UPOS) of words.

The text comes from `# text`. Without it, mixlens joins the words with a space after each word that
has no `SpaceAfter=No`. A multiword token (`2-3 don't`) is split if its words spell it letter by
letter (do, n't). Otherwise (French "du" = de, le) it is one word whose tags are joined by a plus
sign (ADP+DET). Empty nodes (`8.1`) are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from mixlens.datasets.examples import Example, Tagged
from mixlens.datasets.files import Refused, all_lines_of, parse_record
from mixlens.errors import InvalidInput

_TEXT = re.compile(r"# *text *=\s*(.*)")
COLUMNS = 10
Token = tuple[str, str, bool]  # form, tag, space after


def read(path: Path) -> Iterator[Example | Refused]:
    """Return one example per sentence."""
    lines: list[str] = []
    start = 1
    for number, line in enumerate([*all_lines_of(path), ""], 1):
        if line.strip():
            start = start if lines else number
            lines.append(line)
        elif lines:
            yield parse_record(f"{path.name}:{start}", lines, parse_sentence)
            lines = []


def parse_sentence(name: str, lines: list[str]) -> Tagged:
    """Return one sentence as an example."""
    tokens = _tokens([line.split("\t") for line in lines if not line.startswith("#")])
    if not tokens:
        raise InvalidInput("the sentence has no words")
    text_comment = next(
        (match[1].strip() for line in lines if (match := _TEXT.fullmatch(line.strip()))), None
    )
    text = text_comment or "".join(form + " " * space for form, _, space in tokens).strip()
    spans, cursor = [], 0
    for form, _, _ in tokens:
        while cursor < len(text) and text[cursor].isspace():
            cursor += 1
        if not text.startswith(form, cursor):
            raise InvalidInput(
                f"the word {form!r} does not match the text at character {cursor}: "
                f"{text[cursor : cursor + 20]!r}"
            )
        spans.append((cursor, cursor + len(form)))
        cursor += len(form)
    if text[cursor:].strip():
        raise InvalidInput(f"the text continues with {text[cursor:]!r} after the last word")
    return Tagged(name=name, text=text, words=tuple(spans), tags=tuple(tag for _, tag, _ in tokens))


def _tokens(rows: list[list[str]]) -> list[Token]:
    """Return the words of a sentence as they are written in its text."""
    tokens: list[Token] = []
    place = 0
    while place < len(rows):
        row = rows[place]
        if len(row) != COLUMNS:
            raise InvalidInput(f"{len(row)} columns instead of {COLUMNS}: {' '.join(row)}")
        place += 1
        if "." in row[0]:
            continue
        if "-" not in row[0]:
            tokens.append(_token(row))
            continue
        numbers = re.fullmatch(r"(\d{1,9})-(\d{1,9})", row[0])
        if numbers is None:
            raise InvalidInput(
                f"{row[0]!r} is not a word number such as 1, nor a range such as 1-2"
            )
        first, last = int(numbers[1]), int(numbers[2])
        parts = [
            _token(part) for part in rows[place : place + last - first + 1] if len(part) == COLUMNS
        ]
        if len(parts) != last - first + 1:
            raise InvalidInput(f"the multiword token {row[0]} {row[1]} lacks some of its words")
        tokens += _multiword(row[1], parts, _space(row))
        place += len(parts)
    return tokens


def _multiword(form: str, parts: list[Token], space: bool) -> list[Token]:
    if "".join(part for part, _, _ in parts) != form:
        return [(form, "+".join(tag for _, tag, _ in parts), space)]
    return [(part, tag, False) for part, tag, _ in parts[:-1]] + [
        (parts[-1][0], parts[-1][1], space)
    ]


def _token(row: list[str]) -> Token:
    if row[3] in ("", "_"):
        raise InvalidInput(f"the word {row[1]!r} has no part of speech")
    return row[1], row[3], _space(row)


def _space(row: list[str]) -> bool:
    return "SpaceAfter=No" not in row[9].split("|")
