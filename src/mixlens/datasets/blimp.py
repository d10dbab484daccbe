"""BLiMP (Warstadt et al. 2020): minimal pairs as JSONL, one file for each paradigm.

A pair becomes an agreement example if its sentences differ in exactly one word. The group is the
paradigm. Cues are marked for the paradigms that the module `cues` covers. Contractions with "not"
are expanded ("hasn't" becomes "has not"), so that the verb is a separate word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mixlens.datasets import cues
from mixlens.datasets.examples import Agreement
from mixlens.errors import InvalidInput

_WORD = re.compile(r"\w+(?:[-'’]\w+)*")
_NOT = re.compile(r"\b(\w+)n['’]t\b")
_IRREGULAR = {"ca": "cannot", "wo": "will not", "sha": "shall not"}


def recognises(record: Mapping[str, Any]) -> bool:
    """Return whether this is a BLiMP record, a pair of a correct and an incorrect sentence."""
    return isinstance(record.get("sentence_good"), str) and isinstance(
        record.get("sentence_bad"), str
    )


def agreement(name: str, record: Mapping[str, Any], group: str) -> Agreement:
    """Return one minimal pair as an example."""
    for key in ("sentence_good", "sentence_bad"):
        if not isinstance(record.get(key), str) or not record[key].strip():
            raise InvalidInput(f"{key} is not a sentence")
    text, bad = (
        _expand_contractions(record["sentence_good"]),
        _expand_contractions(record["sentence_bad"]),
    )
    good_words, bad_words = list(_WORD.finditer(text)), list(_WORD.finditer(bad))
    different = [
        i
        for i, (one, other) in enumerate(zip(good_words, bad_words, strict=False))
        if one[0] != other[0]
    ]
    if len(good_words) != len(bad_words) or len(different) != 1:
        raise InvalidInput("the sentences do not differ in exactly one word")
    target = different[0]
    paradigm, foil = str(record.get("UID") or group), bad_words[target][0]
    cue = cues.cue(paradigm, [word[0] for word in good_words], target, foil)
    (first, last), label = cue if cue is not None else ((0, 0), None)
    return Agreement(
        name=name,
        text=text,
        group=paradigm,
        place=good_words[target].span(),
        foil=foil,
        cues=(
            ((good_words[first].start(), good_words[last - 1].end()),) if cue is not None else ()
        ),
        label=label,
    )


def _expand_contractions(sentence: str) -> str:
    return _NOT.sub(lambda match: _IRREGULAR.get(match[1], f"{match[1]} not"), sentence.strip())
