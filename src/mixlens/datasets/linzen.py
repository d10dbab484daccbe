"""Subject-verb agreement in sentences of Wikipedia (Linzen et al.

2016), in the form of Gulordava et al. (2018).

Two files side by side: `NAME.text`, one tokenised sentence a line, and `NAME.gold`, with the place
of the verb (word, from 0), its right and its wrong form, and the number of attractors, i.e. of
nouns of the other number between subject and verb. That number is the group. The files do not say
which word is the subject: the examples have no cues.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from mixlens.datasets.cues import number_of
from mixlens.datasets.examples import Agreement, Example
from mixlens.datasets.files import Refused, all_lines_of, attempted
from mixlens.datasets.spelling import spelled
from mixlens.errors import InvalidInput


def read(path: Path) -> Iterator[Example | Refused]:
    """The examples of `NAME.text`, with the `NAME.gold` next to it."""
    texts, golds = map(_lines, (path, path.with_suffix(".gold")))
    if len(texts) != len(golds):
        raise InvalidInput(
            f"{path.name} has {len(texts)} lines and {path.stem}.gold {len(golds)}: they belong"
            " line to line"
        )
    for number, row in enumerate(zip(texts, golds, strict=True), 1):
        yield attempted(f"{path.name}:{number}", row, agreement)


def _lines(file: Path) -> list[str]:
    """The lines of a file without blank ones at its end."""
    lines = all_lines_of(file)
    while len(lines) > 1 and not lines[-1]:
        lines.pop()
    return lines or [""]


def agreement(name: str, row: tuple[str, str]) -> Agreement:
    """One sentence with its line of gold: place, right form, wrong form, attractors."""
    words = [word for word in row[0].split() if word != "<eos>"]
    gold = row[1].split("\t")
    if len(gold) != 4 or not all(re.fullmatch(r"\d{1,9}", gold[i].strip()) for i in (0, 3)):
        raise InvalidInput(
            "not place, right form, wrong form and number of attractors, with tabs between:"
            f" {row[1]!r}"
        )
    place, right, wrong, attractors = int(gold[0]), gold[1], gold[2], int(gold[3])
    if (
        place >= len(words) or words[place].lower() != right.lower()
    ):  # a few forms have a capital in one of the two files
        raise InvalidInput(
            f"word {place} is {words[place]!r}, not {right!r}"
            if place < len(words)
            else f"there is no word {place}"
        )
    wrong = wrong.lower() if words[place].islower() else wrong
    text, spans = spelled(words)
    return Agreement(
        name=name,
        text=text,
        group=f"{attractors} attractors",
        place=spans[place],
        foil=wrong,
        label=_number(right, wrong),
    )


def _number(right: str, wrong: str) -> str | None:
    try:
        return number_of(right, wrong)
    except InvalidInput:
        return None
