"""The words of the grammar: nouns with both numbers and a gender, verbs with their forms, names,
adjectives.

Hand-written lists (words/*.txt) carry what a corpus does not say, above all gender and what a verb
may be done by and to; lists derived from WikiText-2 (words/derived_*.txt) carry breadth.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from .morphology import Verb, conjugate, plural

WORDS = Path(__file__).parent / "words"


@dataclass(frozen=True)
class Noun:
    """A countable noun; gender is f, m, n (a person of either), a (animal) or t (thing)."""

    singular: tuple[str, ...]
    plural: tuple[str, ...]
    gender: str


@dataclass(frozen=True)
class VerbEntry:
    """A verb and the words that must follow it (“look at”)."""

    forms: Verb
    particle: tuple[str, ...] = ()


def read_words(name: str) -> list[str]:
    """The entries of one list, in order, without comments or repeats."""
    lines = (WORDS / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return list(
        dict.fromkeys(word for line in lines if not line.startswith("#") for word in line.split())
    )


def _noun(entry: str, gender: str) -> Noun:
    text = entry.replace("-", " ")
    return Noun(tuple(text.split()), tuple(plural(text).split()), gender)


def _verb(entry: str) -> VerbEntry:
    verb, *particle = entry.split("-")
    return VerbEntry(conjugate(verb), tuple(particle))


@dataclass(frozen=True)
class Lexicon:
    """Every pool the grammar draws from."""

    names: dict[str, list[str]]  # by gender; n holds the names that both use
    families: list[str]
    places_named: list[str]
    demonyms: list[str]
    people: list[Noun]
    animals: list[Noun]
    things: list[Noun]
    places: list[Noun]
    abstract: list[Noun]
    groups: list[Noun]
    representations: list[Noun]
    kin: list[Noun]
    parts: list[Noun]
    derived: list[Noun]
    adjectives: list[str]
    predicatives: list[str]
    adverbs: list[str]
    prepositions: list[tuple[str, ...]]
    verbs: dict[str, list[VerbEntry]] = field(default_factory=dict)

    def word_forms(self) -> list[str]:
        """Every single word the lexicon can produce, lower case, for the vocabulary: most useful
        first.
        """
        forms: dict[str, None] = {}
        pools = (
            self.people,
            self.kin,
            self.representations,
            self.things,
            self.places,
            self.groups,
            self.animals,
            self.abstract,
            self.parts,
        )
        for name, pool in self.verbs.items():
            if not name.startswith("derived"):
                for entry in pool:
                    v = entry.forms
                    forms.update(dict.fromkeys((v.base, v.third, v.past, v.participle, v.ing)))
        for noun in (noun for pool in pools for noun in pool):
            forms.update(dict.fromkeys(noun.singular + noun.plural))
        for names in self.names.values():
            forms.update(dict.fromkeys(name.lower() for name in names))
        forms.update(dict.fromkeys(self.adjectives + self.predicatives + self.adverbs))
        forms.update(dict.fromkeys(word for words in self.prepositions for word in words))
        for name in ("derived", "derived_intransitive"):
            for entry in self.verbs[name]:
                forms.update(dict.fromkeys((entry.forms.base, entry.forms.third)))
        for noun in self.derived[: len(self.derived) // 2]:
            forms.update(dict.fromkeys(noun.singular + noun.plural))
        forms.update(dict.fromkeys(w.lower() for w in self.places_named + self.demonyms))
        forms.update(
            dict.fromkeys(
                w for family in self.families for w in (family.lower(), plural(family.lower()))
            )
        )
        return list(forms)


@cache
def load_lexicon() -> Lexicon:
    """Reads and inflects every list (once per process)."""
    female, male = read_words("names_female"), read_words("names_male")
    both = set(female) & set(male)
    names = {
        "f": [name.capitalize() for name in female if name not in both],
        "m": [name.capitalize() for name in male if name not in both],
        "n": sorted(name.capitalize() for name in both),
    }
    compounds = read_words("compounds")
    bar = compounds.index("|")
    people = [_noun(w, "f") for w in read_words("people_female")]
    people += [_noun(w, "m") for w in read_words("people_male")]
    people += [_noun(w, "n") for w in read_words("people") + compounds[bar + 1 :]]
    known = {noun.singular for noun in people}
    people += [_noun(w, "n") for w in read_words("derived_people") if (w,) not in known]
    things = [_noun(w, "t") for w in read_words("things") + compounds[:bar]]
    animals = [_noun(w, "a") for w in read_words("animals")]
    animate = {noun.singular for noun in people + animals}
    kin = [_noun(*entry.split(":")) for entry in read_words("kin")]
    verbs = {
        name: [_verb(w) for w in read_words(f"verbs_{name}")]
        for name in ("social", "psych", "object", "intransitive_animate", "intransitive", "clausal")
    }
    verbs["derived"] = [_verb(w) for w in read_words("derived_verbs")]
    verbs["derived_intransitive"] = [_verb(w) for w in read_words("derived_verbs_intransitive")]
    return Lexicon(
        names=names,
        families=[w.capitalize() for w in read_words("families")],
        places_named=[w.capitalize() for w in read_words("places_named")],
        demonyms=[w.capitalize() for w in read_words("demonyms")],
        people=people,
        animals=animals,
        things=things,
        places=[_noun(w, "t") for w in read_words("places")],
        abstract=[_noun(w, "t") for w in read_words("abstract")],
        groups=[_noun(w, "t") for w in read_words("groups")],
        representations=[_noun(w, "t") for w in read_words("representations")],
        kin=kin,
        parts=[_noun(w, "t") for w in read_words("parts")],
        derived=[_noun(w, "t") for w in read_words("derived_nouns") if (w,) not in animate],
        adjectives=read_words("adjectives"),
        predicatives=read_words("adjectives_predicative"),
        adverbs=read_words("adverbs"),
        prepositions=[tuple(w.split("-")) for w in read_words("prepositions")],
        verbs=verbs,
    )
