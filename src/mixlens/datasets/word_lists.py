"""Read agreement sets whose sentences are lists of words, as in Mohebbi et al. (2023, §4.1).

Each line is a JSON object with `sentence_good`, `sentence_bad` (lists of words), `target_index`,
`cue_indices`, and optionally `good_word`, `bad_word`, `labels`. The group is the file name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mixlens.datasets.examples import Agreement
from mixlens.datasets.spelling import join_words
from mixlens.errors import InvalidInput


def recognises(record: Mapping[str, Any]) -> bool:
    """Return whether a record is a pair of word lists with a target index."""
    return {"sentence_good", "sentence_bad", "target_index"} <= record.keys()


def agreement(name: str, record: Mapping[str, Any], group: str) -> Agreement:
    """Return the example of a pair of sentences that differ only in the target."""
    good, bad = _words(record, "sentence_good"), _words(record, "sentence_bad")
    target = _index(record.get("target_index"), good)
    different = [i for i, (one, other) in enumerate(zip(good, bad, strict=False)) if one != other]
    if len(good) != len(bad) or different != [target]:
        raise InvalidInput(f"the sentences do not differ only in the target (word {target})")
    for key, word in (("good_word", good[target]), ("bad_word", bad[target])):
        if record.get(key, word) != word:
            raise InvalidInput(
                f"{key} is {record[key]!r}, but word {target} of the sentence is {word!r}"
            )
    places = record.get("cue_indices")
    if places is not None and not isinstance(places, list):
        raise InvalidInput("cue_indices is not a list of indices")
    cues = [_index(place, good) for place in places or ()]
    if target in cues:
        raise InvalidInput(f"the target (word {target}) is also a cue")
    text, spans = join_words(good)
    return Agreement(
        name=name,
        text=text,
        group=group,
        place=spans[target],
        foil=bad[target],
        cues=tuple(spans[cue] for cue in cues),
        label=None if record.get("labels") is None else str(record["labels"]),
    )


def _words(record: Mapping[str, Any], key: str) -> list[str]:
    words = record.get(key)
    if (
        not isinstance(words, list)
        or not words
        or not all(isinstance(word, str) and word.strip() for word in words)
    ):
        raise InvalidInput(f"{key} is not a list of words")
    return words


def _index(place: Any, words: list[str]) -> int:
    if not isinstance(place, int) or isinstance(place, bool) or not 0 <= place < len(words):
        raise InvalidInput(
            f"word {place!r} is out of range for a sentence of {len(words)} words (counted from 0)"
        )
    return place
