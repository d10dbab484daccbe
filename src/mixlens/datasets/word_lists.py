"""Agreement sets whose sentences are lists of words, as Mohebbi et al. (2023, §4.1) use BLiMP.

One JSON object a line: `sentence_good`, `sentence_bad` (lists of words), `target_index`,
`cue_indices`, and if present `good_word`, `bad_word`, `labels`. The group is the file's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mixlens.datasets.examples import Agreement
from mixlens.datasets.spelling import spelled
from mixlens.errors import InvalidInput


def recognises(row: Mapping[str, Any]) -> bool:
    """Is this a pair of word lists with the target's place?"""
    return {"sentence_good", "sentence_bad", "target_index"} <= row.keys()


def agreement(name: str, row: Mapping[str, Any], group: str) -> Agreement:
    """One pair of sentences that differ in the target alone."""
    good, bad = _words(row, "sentence_good"), _words(row, "sentence_bad")
    target = _index(row.get("target_index"), good)
    different = [i for i, (one, other) in enumerate(zip(good, bad, strict=False)) if one != other]
    if len(good) != len(bad) or different != [target]:
        raise InvalidInput(f"the two sentences must differ in the target (word {target}) alone")
    for key, word in (("good_word", good[target]), ("bad_word", bad[target])):
        if row.get(key, word) != word:
            raise InvalidInput(
                f"{key} is {row[key]!r}, but word {target} of the sentence is {word!r}"
            )
    places = row.get("cue_indices")
    if places is not None and not isinstance(places, list):
        raise InvalidInput("cue_indices must be a list of places")
    cues = [_index(place, good) for place in places or ()]
    if target in cues:
        raise InvalidInput(f"the target (word {target}) is named as a cue")
    text, spans = spelled(good)
    return Agreement(
        name=name,
        text=text,
        group=group,
        place=spans[target],
        foil=bad[target],
        cues=tuple(spans[cue] for cue in cues),
        label=None if row.get("labels") is None else str(row["labels"]),
    )


def _words(row: Mapping[str, Any], key: str) -> list[str]:
    words = row.get(key)
    if (
        not isinstance(words, list)
        or not words
        or not all(isinstance(word, str) and word.strip() for word in words)
    ):
        raise InvalidInput(f"{key} must be a list of words")
    return words


def _index(place: Any, words: list[str]) -> int:
    if not isinstance(place, int) or isinstance(place, bool) or not 0 <= place < len(words):
        raise InvalidInput(
            f"there is no word {place!r} in a sentence of {len(words)} words (counted from 0)"
        )
    return place
