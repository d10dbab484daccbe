"""Reads the agreement benchmarks as choices between two words at a [MASK], or as pairs of
sentences.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from .corpora import detokenise

PARADIGMS = {
    "ana": "anaphor number agreement",
    "dna": "determiner–noun agreement 2",
    "dnaa": "determiner–noun agreement with adjective 2",
    "darn": "distractor agreement, relational noun",
    "rpsv": "regular plural subject–verb agreement 1",
}


@dataclass(frozen=True)
class Choice:
    """A text with one [MASK], the word that belongs there and one that does not."""

    text: str
    right: str
    wrong: str
    attractors: int = 0


def _masked(words: list[str], position: int) -> str:
    return detokenise(" ".join([*words[:position], "[MASK]", *words[position + 1 :]]))


def blimp_choices(path: Path) -> list[Choice]:
    """One paradigm of blimp_cues."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [
        Choice(_masked(r["sentence_good"], r["target_index"]), r["good_word"], r["bad_word"])
        for r in rows
    ]


def blimp_pairs(path: Path) -> list[tuple[str, str]]:
    """Good and bad sentence of each pair of a BLiMP file."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [(r["sentence_good"], r["sentence_bad"]) for r in rows]


def linzen_choices(folder: Path) -> list[Choice]:
    """The Linzen set, with the number of nouns of the other number between subject and verb."""
    texts = (folder / "subj_agr_filtered.text").read_text(encoding="utf-8").splitlines()
    golds = (folder / "subj_agr_filtered.gold").read_text(encoding="utf-8").splitlines()
    choices = []
    for text, gold in zip(texts, golds, strict=True):
        position, right, wrong, attractors = gold.split("\t")
        words = text.replace("<eos>", "").split()
        if words[int(position)] != right.lower():
            raise ValueError(f"the verb is not where the file says: {text}")
        choices.append(
            Choice(_masked(words, int(position)), right.lower(), wrong.lower(), int(attractors))
        )
    return choices
