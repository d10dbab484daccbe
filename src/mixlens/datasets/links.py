"""Read gold word alignments, with the word numbers of the file.

* Pharaoh, one sentence per line: `0-1 1-2`, possible links as `0p1`, `0?1`, `0-1p` or `0-1?`.
  `.talp` files count words from 1.
* NAACL / WPT: one link per line, `0001 3 4 S` (sentence, source word, target word, S or P), counted
  from 1. Word 0 means "no word". Links to it are skipped, as in the scorer of the shared task.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mixlens.datasets.files import all_lines_of
from mixlens.errors import InvalidInput

_LINK = re.compile(r"(\d{1,9})([-p?])(\d{1,9})([psPS?]?)")
_NAACL = re.compile(r"(\d{1,9})\s+(\d{1,9})\s+(\d{1,9})(?:\s+([SP]))?(?:\s+[\d.]+)?")


@dataclass(frozen=True)
class Links:
    """The links of one sentence, with the word numbers of the file."""

    place: str  # file:line
    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]

    @property
    def all(self) -> frozenset[tuple[int, int]]:
        """Return sure and possible links."""
        return self.sure | self.possible


def read_links(file: Path, sentences: int) -> tuple[list[Links], int | None]:
    """Return the links of every sentence, and the number of the first word if the format defines
    it.
    """
    lines = sentences_of(file)
    filled = [line for line in lines if line.strip()]
    if filled and _NAACL.fullmatch(filled[0].strip()):
        return _naacl(file, lines, sentences), 1
    if len(lines) != sentences:
        raise InvalidInput(
            f"{file} has {len(lines)} lines of links for {sentences} sentences. Pass files "
            "with one line per sentence."
        )
    return [_line_of_links(f"{file}:{number}", line) for number, line in enumerate(lines, 1)], (
        1 if file.suffix == ".talp" else None
    )


def _line_of_links(place: str, line: str) -> Links:
    sure: set[tuple[int, int]] = set()
    possible: set[tuple[int, int]] = set()
    for word in line.split():
        link = _LINK.fullmatch(word)
        if link is None:
            raise InvalidInput(
                f"{place}: {word!r} is not a link. Write 3-4 for a sure link, and 3p4, 3?4 or "
                "3-4p for a possible one."
            )
        doubtful = link[2] != "-" or link[4] in ("p", "P", "?")
        (possible if doubtful else sure).add((int(link[1]), int(link[3])))
    return Links(place, frozenset(sure), frozenset(possible))


def _naacl(file: Path, lines: Iterable[str], sentences: int) -> list[Links]:
    sure: list[set[tuple[int, int]]] = [set() for _ in range(sentences)]
    possible: list[set[tuple[int, int]]] = [set() for _ in range(sentences)]
    places = [f"{file} (no line)"] * sentences
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        link = _NAACL.fullmatch(line.strip())
        if link is None:
            raise InvalidInput(
                f"{file}:{number}: {line.strip()!r} is not a link. Write it as '0001 3 4 S'."
            )
        sentence = int(link[1]) - 1
        if not 0 <= sentence < sentences:
            raise InvalidInput(
                f"{file}:{number}: sentence {link[1]} is out of range (1–{sentences}). Pass "
                "the text of these links."
            )
        places[sentence] = f"{file}:{number}"
        pair = int(link[2]), int(link[3])
        if 0 not in pair:
            (possible if link[4] == "P" else sure)[sentence].add(pair)
    return [
        Links(*parts)
        for parts in zip(places, map(frozenset, sure), map(frozenset, possible), strict=True)
    ]


def sentences_of(file: Path) -> list[str]:
    """Return the lines of a text file, including blank ones."""
    if not file.is_file():
        raise InvalidInput(f"{file} does not exist. Pass a file with word links.")
    return all_lines_of(file)
