"""Generates English sentences in which number and gender agree, and says which words agreement
fixes.

Sentences are drawn from a seed; the same seed gives the same sentences. To see some:

    python -m training.grammar --count 20
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from random import Random

from .clauses import Clauses
from .lexicon import load_lexicon
from .noun_phrases import MARK

OPENERS = [
    ("yesterday", ","),
    ("today", ","),
    ("in", "the", "morning", ","),
    ("last", "year", ","),
    ("however", ","),
    ("of", "course", ","),
    ("in", "fact", ","),
    ("every", "day", ","),
    ("now",),
    ("then",),
    ("sometimes",),
    ("after", "the", "war", ","),
    ("in", "the", "end", ","),
    ("for", "example", ","),
    ("at", "night", ","),
]
SUBORDINATORS = ["when", "because", "although", "while", "if", "before", "after", "since"]
JOINERS = [
    (",", "and"),
    (",", "but"),
    (",", "so"),
    (";",),
    (",", "while"),
    ("because",),
    ("although",),
]


@dataclass(frozen=True)
class Sentence:
    """Words of one sentence, final mark included, and the indices of those that agreement fixes."""

    words: tuple[str, ...]
    targets: tuple[int, ...]

    @property
    def text(self) -> str:
        """Plain spelling: capital first, no space before punctuation."""
        text = " ".join(self.words)
        for mark in (",", ".", "?", ";", "!"):
            text = text.replace(f" {mark}", mark)
        return text[0].upper() + text[1:]


class Grammar:
    """An endless, seeded source of sentences."""

    def __init__(self, seed: int):
        self.random = Random(seed)
        self.clauses = Clauses(self.random, load_lexicon())

    def _long(self) -> tuple[str, ...]:
        """Several clauses joined, for sentences longer than a head is wide."""
        make = self.clauses
        words = self._opened() if make.chance(0.5) else make.statement()
        for _ in range(2 if make.chance(0.4) else 1):
            words = (
                *words,
                *make.pick(JOINERS),
                *(make.embedded() if make.chance(0.3) else make.statement()),
            )
        return words

    def _further(self) -> tuple[str, ...]:
        make, draw = self.clauses, self.random.random()
        if draw < 0.3:
            return make.embedded()
        return make.expository() if draw < 0.5 else make.statement()

    def _opened(self) -> tuple[str, ...]:
        """Something before the subject: an adverbial, a place, a subordinate clause."""
        make, draw = self.clauses, self.random.random()
        if draw < 0.4:
            return (*make.pick(OPENERS), *make.statement())
        if draw < 0.65:
            return (*make.verbs.place(), ",", *make.statement())
        return (make.pick(SUBORDINATORS), *make.short_statement(), ",", *make.statement())

    def sentence(self) -> Sentence:
        """The next sentence."""
        make, draw = self.clauses, self.random.random()
        end = "."
        if draw < 0.30:
            marked = make.statement()
        elif draw < 0.42:
            marked = make.expository()
        elif draw < 0.54:
            marked = make.reflexive()
        elif draw < 0.68:
            marked = make.demonstrative()
        elif draw < 0.74:
            marked = make.coordinated()
        elif draw < 0.80:
            marked = make.embedded()
        elif draw < 0.86:
            marked = self._opened()
        elif draw < 0.89:
            marked = make.existential()
        elif draw < 0.93:
            marked, end = make.question(), "?"
        else:
            marked = self._long()
        marked = (*marked, end)
        targets = tuple(i for i, word in enumerate(marked) if word.startswith(MARK))
        return Sentence(tuple(word.lstrip(MARK) for word in marked), targets)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Print generated sentences, agreeing words in brackets."
    )
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    grammar = Grammar(arguments.seed)
    for _ in range(arguments.count):
        sentence = grammar.sentence()
        print(
            " ".join(f"[{w}]" if i in sentence.targets else w for i, w in enumerate(sentence.words))
        )


if __name__ == "__main__":
    main()
