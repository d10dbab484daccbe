"""Exclude the sentences of the benchmarks from the training text.

Every sentence of BLiMP (good and bad) and of the Linzen set (with the right and with the wrong
verb) is reduced to lower-case words without punctuation, contractions written out. A paragraph,
story or generated sentence that holds one of them is dropped whole and counted: sentences of five
words and more are looked for anywhere in the text, shorter ones as whole sentences.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

from .corpora import sentences

SHINGLE = 5
DEMONSTRATION = [
    f"the pictures of some hat {verb} scaring marcus" for verb in ("are", "were", "is", "was")
]
_NEGATION = re.compile(r" ?n't\b")
_NOT_WORD = re.compile(r"[^a-z0-9]+")


def normalise(text: str) -> tuple[str, ...]:
    """Lower-case words, punctuation gone, “hasn't” as “has not”."""
    text = (
        text.lower()
        .replace("can't", "can not")
        .replace("cannot", "can not")
        .replace("won't", "will not")
    )
    return tuple(_NOT_WORD.sub(" ", _NEGATION.sub(" not", text)).split())


class BenchmarkIndex:
    """Looks up whether a text holds a benchmark sentence."""

    def __init__(self, texts: list[str]):
        self.short: set[tuple[str, ...]] = set()
        self.openings: dict[tuple[str, ...], set[tuple[str, ...]]] = defaultdict(set)
        for words in {normalise(text) for text in texts}:
            if len(words) >= SHINGLE:
                self.openings[words[:SHINGLE]].add(words)
            elif words:
                self.short.add(words)

    def __len__(self) -> int:
        return len(self.short) + sum(len(group) for group in self.openings.values())

    def holds(self, text: str) -> bool:
        """True when a benchmark sentence is in the text."""
        words = normalise(text)
        if len(words) < SHINGLE:
            return words in self.short
        for start in range(len(words) - SHINGLE + 1):
            for candidate in self.openings.get(words[start : start + SHINGLE], ()):
                if words[start : start + len(candidate)] == candidate:
                    return True
        return bool(self.short) and any(normalise(part) in self.short for part in sentences(text))


def _blimp(folder: Path) -> list[str]:
    texts = []
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            for key in ("sentence_good", "sentence_bad"):
                texts.append(row[key] if isinstance(row[key], str) else " ".join(row[key]))
    return texts


def _linzen(folder: Path) -> list[str]:
    texts = []
    for path in sorted(folder.glob("*.text")):
        lines = path.read_text(encoding="utf-8").splitlines()
        golds = path.with_suffix(".gold").read_text(encoding="utf-8").splitlines()
        for line, gold in zip(lines, golds, strict=True):
            position, _, wrong, _ = gold.split("\t")
            words = line.replace("<eos>", "").split()
            texts.append(" ".join(words))
            words[int(position)] = wrong.lower()
            texts.append(" ".join(words))
    return texts


@cache
def load_benchmarks(data: Path | None) -> BenchmarkIndex:
    """The index over all benchmark files in a data folder; without a folder, over the demonstration
    alone.
    """
    texts = list(DEMONSTRATION)
    if data is not None:
        texts += (
            _blimp(data / "blimp")
            + _blimp(data / "blimp_cues")
            + _linzen(data / "linzen_agreement")
        )
    return BenchmarkIndex(texts)
