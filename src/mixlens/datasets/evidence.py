"""Read texts that a model continues, with marked evidence words (Ferrando et al. 2023).

The tables have the columns `one_prefix_prefix` (the text), `one_prefix_word_good` and
`one_prefix_word_bad` (target and foil), and `target`, the evidence word. If there is a
`target_phrase`, the whole phrase is the evidence, as in the paper, except in the sets for which the
paper uses only the head of the phrase. If the evidence occurs several times, the first occurrence
is used. Records without evidence (NA, or the whole sentence) are skipped.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from mixlens.datasets.examples import Agreement
from mixlens.datasets.files import lines_of
from mixlens.datasets.places import whole_words
from mixlens.errors import InvalidInput

COLUMNS = {"one_prefix_prefix", "one_prefix_word_good", "one_prefix_word_bad", "target"}
HEADS_ONLY = {
    "distractor_agreement_relational_noun",
    "irregular_plural_subject_verb_agreement_1",
    "regular_plural_subject_verb_agreement_1",
}


def recognises(columns: Collection[str]) -> bool:
    """Return whether these are the columns of a table with evidence words."""
    return set(columns) >= COLUMNS


def is_table(path: Path) -> bool:
    """Return whether a file is a table with evidence words."""
    first = next(iter(lines_of(path)), ("", ""))[1]
    return recognises(first.lower().split(","))


def agreement(name: str, record: Mapping[str, Any], group: str) -> Agreement:
    """Convert a record to an agreement example: the prefix and its target, with the evidence as the
    cue.
    """
    group = str(record.get("uid") or record.get("UID") or group)
    prefix, target, foil = (
        str(record[key]).strip()
        for key in ("one_prefix_prefix", "one_prefix_word_good", "one_prefix_word_bad")
    )
    phrase = "" if group in HEADS_ONLY else str(record.get("target_phrase") or "").strip()
    evidence = phrase or str(record["target"]).strip()
    sentence = str(record.get("sentence_good") or "").strip()
    if not prefix or evidence in ("", "NA", "nan", sentence):
        raise InvalidInput("the evidence word is missing")
    places = whole_words(prefix, evidence)
    if not places:
        raise InvalidInput(f"the evidence {evidence!r} is not in the text {prefix!r}")
    return Agreement(
        name=name,
        text=f"{prefix} {target}",
        group=group,
        place=(len(prefix) + 1, len(prefix) + 1 + len(target)),
        foil=foil,
        cues=(places[0],),
    )
