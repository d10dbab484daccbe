"""Finite verb phrases: tense, auxiliaries, negation and contractions, with the agreeing word
marked.
"""

from __future__ import annotations

from .lexicon import VerbEntry
from .noun_phrases import MARK, NounPhrase, NounPhrases, weighted

MODALS = weighted(
    "will:5 would:5 can:4 could:4 might:4 should:4 must:2 may:2 won't:1 wouldn't:2 can't:2"
    " couldn't:2 shouldn't:1 will-not:1 would-not:1 can-not:1 could-not:1 might-not:1 should-not:1"
)
BETWEEN = weighted(
    "not:8 never:2 already:1 always:1 also:1 still:1 really:1 just:1 probably:1 often:1 currently:1"
)
CATENATIVES = {
    False: [
        "wants",
        "seems",
        "tries",
        "needs",
        "hopes",
        "appears",
        "plans",
        "likes",
        "has",
        "begins",
    ],
    True: ["want", "seem", "try", "need", "hope", "appear", "plan", "like", "have", "begin"],
}
CONTRACTED = {
    "is": "isn't",
    "are": "aren't",
    "was": "wasn't",
    "were": "weren't",
    "has": "hasn't",
    "have": "haven't",
    "does": "doesn't",
    "do": "don't",
}
REFLEXIVES = {
    "f": ["herself"],
    "m": ["himself"],
    "n": ["himself", "herself"],
    "a": ["itself"] * 4 + ["himself"],
    "t": ["itself"],
    "I": ["myself"],
    "we": ["ourselves"],
    "you": ["yourself", "yourselves"],
}
AUXILIARIES = {
    "present": {False: "is", True: "are"},
    "past": {False: "was", True: "were"},
    "perfect": {False: "has", True: "have"},
    "do": {False: "does", True: "do"},
}


class VerbPhrases:
    """Builds what follows a subject so that it agrees with it."""

    def __init__(self, nouns: NounPhrases):
        self.nouns = nouns
        self.lexicon = nouns.lexicon
        self.pick = nouns.pick
        self.chance = nouns.chance

    def auxiliary(self, which: str, subject: NounPhrase) -> str:
        """The agreeing form of be, have or do, without its mark."""
        if subject.person == 1 and not subject.plural:
            return {"present": "am", "past": "was", "perfect": "have", "do": "do"}[which]
        return AUXILIARIES[which][subject.plural]

    def with_auxiliary(self, which: str, subject: NounPhrase) -> tuple[str, ...]:
        """“is”, “is not”, “isn't”, “has already”: the auxiliary marked, and perhaps a word behind
        it.
        """
        word = self.auxiliary(which, subject)
        draw = self.nouns.random.random()
        if draw < 0.1 and word in CONTRACTED:
            return (MARK + CONTRACTED[word],)
        if draw < 0.36:
            return (MARK + word, *self.pick(BETWEEN))
        return (MARK + word,)

    def finite(self, subject: NounPhrase, entry: VerbEntry) -> tuple[str, ...]:
        """One verb in some tense, up to and with its particle."""
        forms, draw = entry.forms, self.nouns.random.random()
        bare = subject.plural or subject.person == 1
        adverb = (self.pick(self.lexicon.adverbs),) if self.chance(0.06) else ()
        if draw < 0.30:
            words = (*adverb, MARK + (forms.base if bare else forms.third))
        elif draw < 0.36:
            do = self.auxiliary("do", subject)
            words = (MARK + CONTRACTED[do] if self.chance(0.5) else MARK + do, "not", forms.base)
            if words[0].endswith("n't"):
                words = (words[0], forms.base)
        elif draw < 0.50:
            words = (*adverb, forms.past)
        elif draw < 0.54:
            words = (*self.pick([("didn't",), ("did", "not")]), forms.base)
        elif draw < 0.66:
            words = (*self.with_auxiliary("present", subject), *adverb, forms.ing)
        elif draw < 0.74:
            words = (*self.with_auxiliary("past", subject), *adverb, forms.ing)
        elif draw < 0.87:
            words = (*self.with_auxiliary("perfect", subject), *adverb, forms.participle)
        elif draw < 0.89:
            words = (*self.with_auxiliary("perfect", subject), "been", forms.ing)
        elif draw < 0.90:
            words = (self.pick(["had", "hadn't"]), forms.participle)
        elif draw < 0.97:
            words = (*self.pick(MODALS), *adverb, forms.base)
        elif draw < 0.99:
            words = (MARK + self.pick(CATENATIVES[bare]), "to", forms.base)
        else:
            words = (
                MARK + self.auxiliary("present", subject),
                *self.pick([("about",), ("going",)]),
                "to",
                forms.base,
            )
        return words + entry.particle

    def place(self) -> tuple[str, ...]:
        """“near these lakes”, “with Mary”."""
        return (*self.pick(self.lexicon.prepositions), *self.nouns.plain("any").words)

    def object_phrase(self, kind: str) -> tuple[str, ...]:
        """An object, with one demonstrative in five."""
        if kind == "person" and self.chance(0.08):
            return (self.pick(["him", "her", "them", "us", "me", "you", "it"]),)
        if self.chance(0.2):
            return self.nouns.demonstrated(kind, self.chance(0.5), self.chance(0.45)).words
        return self.nouns.plain(kind).words

    def transitive(self, subject: NounPhrase) -> tuple[str, ...]:
        """A verb with its object, fitting the kind of subject."""
        animate, draw = subject.gender != "t", self.nouns.random.random()
        if draw < 0.2:
            entry, kind = self.pick(self.lexicon.verbs["derived"]), "any"
        elif not animate or draw < 0.35:
            entry, kind = self.pick(self.lexicon.verbs["psych"]), "person"
        elif draw < 0.68:
            entry, kind = (
                self.pick(self.lexicon.verbs["social"]),
                "person" if self.chance(0.7) else "any",
            )
        else:
            entry, kind = self.pick(self.lexicon.verbs["object"]), "thing"
        return self.finite(subject, entry) + self.object_phrase(kind)

    def intransitive(self, subject: NounPhrase) -> tuple[str, ...]:
        if self.chance(0.25):
            pool = "derived_intransitive"
        else:
            pool = (
                "intransitive_animate"
                if subject.gender != "t" and self.chance(0.7)
                else "intransitive"
            )
        layer_rest = self.place() if self.chance(0.35) else ()
        return self.finite(subject, self.pick(self.lexicon.verbs[pool])) + layer_rest

    def copular(self, subject: NounPhrase) -> tuple[str, ...]:
        """be, seem, look or become, with an adjective, a noun of the same number or a place."""
        draw = self.nouns.random.random()
        if draw < 0.75:
            verb = self.with_auxiliary(self.pick(["present", "past"]), subject)
        elif draw < 0.85:
            verb = (*self.with_auxiliary("perfect", subject), "been")
        else:
            base = self.pick(["seem", "look", "become", "remain", "appear"])
            verb = (MARK + (base if subject.plural or subject.person == 1 else base + "s"),)
        draw = self.nouns.random.random()
        if draw < 0.6 or verb[0].strip(MARK).startswith(("seem", "look", "become", "appear")):
            adverb = (
                (self.pick(["very", "quite", "so", "too", "really"]),) if self.chance(0.25) else ()
            )
            return (
                verb
                + adverb
                + (
                    self.pick(
                        self.lexicon.predicatives if self.chance(0.6) else self.lexicon.adjectives
                    ),
                )
            )
        if draw < 0.85:
            return verb + self.place()
        kind = "thing" if subject.gender == "t" else "person"
        determiner = (
            self.pick([(), ("the",), ("good",)])
            if subject.plural
            else self.pick([("a",), ("the",)])
        )
        return verb + self.nouns.determine(self.nouns.noun(kind), subject.plural, determiner).words

    def passive(self, subject: NounPhrase) -> tuple[str, ...]:
        verb = self.with_auxiliary(self.pick(["present", "past"]), subject)
        if self.chance(0.3):
            verb = (*self.with_auxiliary("perfect", subject), "been")
        pool = "object" if subject.gender == "t" else "social"
        entry = self.pick(self.lexicon.verbs["derived" if self.chance(0.3) else pool])
        layer_rest = ("by", *self.nouns.plain("person").words) if self.chance(0.5) else ()
        return verb + (entry.forms.participle,) + entry.particle + layer_rest

    def any(self, subject: NounPhrase) -> tuple[str, ...]:
        """Any predicate."""
        draw = self.nouns.random.random()
        if draw < 0.5:
            return self.transitive(subject)
        if draw < 0.68:
            return self.intransitive(subject)
        return self.copular(subject) if draw < 0.88 else self.passive(subject)

    def reflexive(self, subject: NounPhrase) -> tuple[str, ...]:
        """A verb whose object is the subject again; the reflexive is marked too."""
        group = ("I", "we", "you")
        if subject.plural and subject.gender not in group:
            pronoun = "themselves"
        else:
            pronoun = self.pick(REFLEXIVES[subject.gender])
        draw = self.nouns.random.random()
        pool = (
            "psych"
            if subject.gender == "t" or draw < 0.1
            else "derived"
            if draw < 0.2
            else "social"
        )
        pool = "object" if draw > 0.9 else pool
        return (*self.finite(subject, self.pick(self.lexicon.verbs[pool])), MARK + pronoun)
