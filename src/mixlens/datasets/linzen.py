"""Read subject-verb agreement in sentences of Wikipedia (Linzen et al.

2016), in the file format of Gulordava et al. (2018).

The data are two parallel files. `NAME.text` has one tokenised sentence per line. `NAME.gold` has
the position of the verb (word, from 0), its correct and its wrong form, and the number of
attractors, which are nouns of the other number between subject and verb. The number of attractors
is the group of the example. The files do not mark the subject, so the examples have no cues.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from mixlens.datasets.cues import number_of
from mixlens.datasets.examples import Agreement, Example
from mixlens.datasets.files import Refused, all_lines_of, parse_record
from mixlens.datasets.spelling import join_words
from mixlens.errors import InvalidInput


def read(path: Path) -> Iterator[Example | Refused]:
    """Read the examples from `NAME.text` and `NAME.gold`."""
    texts, golds = map(_lines, (path, path.with_suffix(".gold")))
    if len(texts) != len(golds):
        raise InvalidInput(
            f"{path.name} has {len(texts)} lines, but {path.stem}.gold has {len(golds)}. Pass "
            "files with matching lines."
        )
    for number, record in enumerate(zip(texts, golds, strict=True), 1):
        yield parse_record(f"{path.name}:{number}", record, agreement)


def _lines(file: Path) -> list[str]:
    """Return the lines of a file, without blank lines at its end."""
    lines = all_lines_of(file)
    while len(lines) > 1 and not lines[-1]:
        lines.pop()
    return lines or [""]


def agreement(name: str, record: tuple[str, str]) -> Agreement:
    """Return the example of a sentence and its gold line (position, correct form, wrong form,
    attractors).
    """
    words = [word for word in record[0].split() if word != "<eos>"]
    gold = record[1].split("\t")
    if len(gold) != 4 or not all(re.fullmatch(r"\d{1,9}", gold[i].strip()) for i in (0, 3)):
        raise InvalidInput(
            "the gold line must be position, correct form, wrong form and number of "
            f"attractors, separated by tabs: {record[1]!r}"
        )
    place, right, wrong, attractors = int(gold[0]), gold[1], gold[2], int(gold[3])
    if (
        place >= len(words) or words[place].lower() != right.lower()
    ):  # a few forms are capitalised in one of the two files
        raise InvalidInput(
            f"word {place} is {words[place]!r}, not {right!r}"
            if place < len(words)
            else f"the sentence has no word {place}"
        )
    wrong = wrong.lower() if words[place].islower() else wrong
    text, spans = join_words(words)
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
