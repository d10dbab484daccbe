"""Noun phrases: determiner, adjectives, noun, names, pronouns, with the number and gender that
others agree with.

A word that something else in the sentence fixes (a demonstrative before its noun) begins with the
mark ^, which the sentence turns into a target for masking.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

from .lexicon import Lexicon, Noun
from .morphology import plural as plural_of

T = TypeVar("T")
MARK = "^"


def weighted(spec: str) -> list[tuple[str, ...]]:
    """“the:3 a-few:1” as a list in which each entry is as often as its weight."""
    entries = (item.rpartition(":") for item in spec.split())
    return [
        tuple(text.split("-")) if text else ()
        for text, _, weight in entries
        for _ in range(int(weight))
    ]


SINGULAR_DETERMINERS = weighted(
    "the:28 a:20 ^this:9 ^that:9 every:5 each:4 some:6 another:4 one:2 no:2 my:1 his:2 her:2"
    " their:2 our:1 your:1 any:1 either:1 a-certain:1 the-other:1 the-first:1 the-only:1"
)
PLURAL_DETERMINERS = weighted(
    "the:24 ^these:9 ^those:9 many:7 most:7 some:9 a-few:3 few:2 several:5 all:4 all-the:1 both:2"
    " two:2 three:2 four:1 ten:1 no:1 my:1 his:2 her:1 their:2 our:1 :9 a-lot-of:1 the-two:1"
    " the-other:2 other:1 various:1 various:1 many-of-the:1 some-of-the:1 most-of-the:1"
    " all-of-the:1 both-of-the:1 many-of-^these:1 some-of-^those:1"
)
DEMONSTRATIVES = {False: [("^this",), ("^that",)], True: [("^these",), ("^those",)]}
AN_DESPITE = ("hour", "honest", "heir")
A_DESPITE = ("uni", "euro", "one", "use", "usual", "ufo")


@dataclass(frozen=True)
class NounPhrase:
    """Words with what agreement needs to know: number, gender, and person for pronouns."""

    words: tuple[str, ...]
    plural: bool
    gender: str = "t"
    person: int = 3

    def then(self, *more: str) -> NounPhrase:
        """The same phrase with words added behind its head."""
        return replace(self, words=self.words + more)


PRONOUNS = [
    NounPhrase(("he",), False, "m"),
    NounPhrase(("she",), False, "f"),
    NounPhrase(("it",), False, "t"),
    NounPhrase(("they",), True, "n"),
    NounPhrase(("they",), True, "n"),
    NounPhrase(("we",), True, "we"),
    NounPhrase(("I",), False, "I", 1),
    NounPhrase(("you",), True, "you"),
    NounPhrase(("someone",), False, "n"),
    NounPhrase(("everyone",), False, "n"),
    NounPhrase(("nobody",), False, "n"),
]


class NounPhrases:
    """Draws noun phrases from a lexicon with one random generator."""

    def __init__(self, random: Random, lexicon: Lexicon):
        self.random = random
        self.lexicon = lexicon

    def pick(self, pool: list[T]) -> T:
        return pool[int(self.random.random() * len(pool))]

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def noun(self, kind: str) -> Noun:
        """A noun of one kind: person, thing, or any."""
        lexicon, draw = self.lexicon, self.random.random()
        if kind == "person":
            return self.pick(
                lexicon.people if draw < 0.8 else lexicon.kin if draw < 0.88 else lexicon.animals
            )
        if kind == "any" and draw < 0.4:
            return self.noun("person")
        draw = self.random.random()
        for limit, pool in (
            (0.33, lexicon.things),
            (0.5, lexicon.places),
            (0.62, lexicon.abstract),
            (0.68, lexicon.groups),
            (0.73, lexicon.representations),
            (0.79, lexicon.animals),
        ):
            if draw < limit:
                return self.pick(pool)
        return self.pick(lexicon.derived)

    def name(self) -> NounPhrase:
        """A proper name: mostly a given name, sometimes with a family name, or a place."""
        gender = self.pick(["f", "m", "f", "m", "f", "m", "f", "m", "f", "m", "n"])
        first_name = self.pick(self.lexicon.names[gender])
        if self.chance(0.08):
            return NounPhrase((first_name, self.pick(self.lexicon.families)), False, gender)
        return NounPhrase((first_name,), False, gender)

    def named_group(self) -> NounPhrase:
        """Plural names: two people, a family, a people."""
        draw = self.random.random()
        if draw < 0.55:
            return NounPhrase((*self.name().words, "and", *self.name().words), True, "n")
        if draw < 0.75:
            return NounPhrase(("the", plural_of(self.pick(self.lexicon.families))), True, "n")
        people = self.pick(self.lexicon.demonyms)
        return NounPhrase(
            (
                (self.pick(["the", "many", "some", "most", "^these", "^those"]), people)
                if self.chance(0.6)
                else (people,)
            ),
            True,
            "n",
        )

    def adjectives(self) -> tuple[str, ...]:
        draw = self.random.random()
        if draw < 0.66:
            return ()
        first = self.pick(self.lexicon.adjectives)
        if draw < 0.95:
            return (first,)
        return (
            (first, self.pick(self.lexicon.adjectives))
            if draw < 0.98
            else (self.pick(["very", "really"]), first)
        )

    def determine(
        self,
        noun: Noun,
        plural: bool,
        determiner: tuple[str, ...] | None = None,
        adjectives: tuple[str, ...] | None = None,
    ) -> NounPhrase:
        """Determiner, adjectives and noun; now and then the noun itself is marked as well."""
        if determiner is None:
            determiner = self.pick(PLURAL_DETERMINERS if plural else SINGULAR_DETERMINERS)
            if self.chance(0.05):
                determiner = self.possessor()
        if adjectives is None:
            adjectives = self.adjectives()
        words = noun.plural if plural else noun.singular
        if len(words) == 1 and self.chance(0.1):
            words = (MARK + words[0],)
        following = (adjectives + words)[0].lstrip(MARK)
        if determiner and determiner[0] == "a" and not plural and len(determiner) == 1:
            vowel = following[0] in "aeiou" and not following.startswith(A_DESPITE)
            determiner = ("an",) if vowel or following.startswith(AN_DESPITE) else ("a",)
        return NounPhrase(determiner + adjectives + words, plural, noun.gender)

    def possessor(self) -> tuple[str, ...]:
        """“Mary's”, “the teacher's”, “those boys'”."""
        if self.chance(0.5):
            return (self.pick(self.lexicon.names[self.pick(["f", "m"])]) + "'s",)
        noun, many = self.noun("person"), self.chance(0.4)
        words = noun.plural if many else noun.singular
        determiner = self.pick(
            [("the",), ("^these",), ("some",)] if many else [("the",), ("^this",), ("every",)]
        )
        return (
            determiner
            + words[:-1]
            + (words[-1] + ("'" if words[-1].endswith("s") and many else "'s"),)
        )

    def plain(self, kind: str = "any", plural: bool | None = None) -> NounPhrase:
        """A noun phrase without anything behind its noun."""
        if plural is None:
            plural = self.chance(0.5)
        if kind != "thing" and self.chance(0.3 if kind == "person" else 0.14):
            return self.named_group() if plural else self.name()
        if kind != "person" and not plural and self.chance(0.03):
            return NounPhrase((self.pick(self.lexicon.places_named),), False, "t")
        return self.determine(self.noun(kind), plural)

    def demonstrated(self, kind: str, plural: bool, with_adjective: bool) -> NounPhrase:
        """“these hard books”: the determiner is the target."""
        adjectives = (self.pick(self.lexicon.adjectives),) if with_adjective else ()
        return self.determine(
            self.noun(kind), plural, self.pick(DEMONSTRATIVES[plural]), adjectives
        )
