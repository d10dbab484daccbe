"""Subjects with attractors between head and verb, and the clauses around them."""

from __future__ import annotations

from random import Random

from .lexicon import Lexicon, Noun
from .noun_phrases import MARK, PRONOUNS, NounPhrase, NounPhrases, weighted
from .verb_phrases import VerbPhrases

LINKS = [
    ("to",),
    ("for",),
    ("in",),
    ("on",),
    ("from",),
    ("with",),
    ("at",),
    ("about",),
    ("against",),
    ("near",),
]
WRITTEN_LINKS = weighted(
    "in:6 for:4 from:3 with:3 by:2 on:3 at:2 to:3 between:1 among:1 within:1 under:1 such-as:1 "
    "used-in:1 found-in:1 made-by:1 known-as:1 based-on:1 including:1 near:1 about:1 against:1 "
    "during:1 along:1 behind:1 throughout:1"
)
SINGULAR_PARTITIVES = ["one", "each", "neither", "either", "one"]
PLURAL_PARTITIVES = ["many", "some", "most", "several", "all", "both", "few", "two", "three"]


class Clauses:
    """Whole clauses, from a subject and a predicate that agrees with it."""

    def __init__(self, random: Random, lexicon: Lexicon):
        self.nouns = NounPhrases(random, lexicon)
        self.verbs = VerbPhrases(self.nouns)
        self.random, self.lexicon = random, lexicon
        self.pick, self.chance = self.nouns.pick, self.nouns.chance

    def of_phrase(self, plural: bool, person: bool = False) -> NounPhrase:
        """A relational head with “of” and an attractor of either number."""
        draw = self.random.random()
        if person or draw < 0.33:
            head = self.nouns.determine(self.pick(self.lexicon.kin), plural)
            return head.then("of", *self.nouns.plain("person").words)
        if draw < 0.66:
            head = self.nouns.determine(self.pick(self.lexicon.representations), plural)
            return head.then("of", *self.nouns.plain("any").words)
        if draw < 0.8:
            head = self.nouns.determine(self.pick(self.lexicon.parts), plural)
            return head.then("of", *self.nouns.plain("thing").words)
        if draw < 0.88:
            word = self.pick(PLURAL_PARTITIVES if plural else SINGULAR_PARTITIVES)
            inner = self.nouns.determine(
                self.nouns.noun("any"), True, self.pick([("the",), ("^these",), ("^those",)])
            )
            return NounPhrase((word, "of", *inner.words), plural, inner.gender)
        head = self.nouns.determine(self.nouns.noun("thing"), plural)
        return head.then("of", *self.nouns.plain("any").words)

    def relative_clause(self, head: NounPhrase) -> NounPhrase:
        """“who likes the dogs”, “that those boys see”: its verb agrees with its own subject."""
        pronoun = self.pick(
            ["who", "who", "that"] if head.gender != "t" else ["that", "that", "which"]
        )
        if self.chance(0.5):
            return head.then(pronoun, *self.verbs.any(head))
        subject = self.nouns.plain("person")
        pool = self.lexicon.verbs["social" if head.gender != "t" else "object"]
        link = (pronoun,) if self.chance(0.8) else ()
        return head.then(*link, *subject.words, *self.verbs.finite(subject, self.pick(pool)))

    def chain(self, head: NounPhrase, depth: int) -> NounPhrase:
        """Prepositional phrases one behind the other, each with its own number."""
        for _ in range(depth):
            link = self.pick(LINKS) if self.chance(0.5) else self.pick(self.lexicon.prepositions)
            head = head.then(
                *(link if self.chance(0.6) else ("of",)), *self.nouns.plain("any").words
            )
        return head

    def reduced_relative(self, head: NounPhrase) -> NounPhrase:
        """“written by the teachers”, “standing near a lake”."""
        if head.gender == "t" or self.chance(0.3):
            entry = self.pick(self.lexicon.verbs["object" if head.gender == "t" else "social"])
            return head.then(
                entry.forms.participle, *entry.particle, "by", *self.nouns.plain("person").words
            )
        entry = self.pick(self.lexicon.verbs["intransitive_animate"])
        return head.then(entry.forms.ing, *self.verbs.place())

    def subject(self, kind: str = "any", plain: float = 0.38) -> NounPhrase:
        """A subject; more than half of them have an attractor or more behind the head."""
        plural, draw = self.chance(0.5), self.random.random()
        if draw < 0.05:
            return self.pick(PRONOUNS)
        if draw < plain:
            return self.nouns.plain(kind, plural)
        draw = self.random.random()
        if draw < 0.38:
            phrase = self.of_phrase(plural, kind == "person")
            return phrase if self.chance(0.88) else self.chain(phrase, 1)
        head = self.nouns.determine(self.nouns.noun(kind), plural)
        if draw < 0.60:
            return self.chain(head, 1 if self.chance(0.65) else 2 if self.chance(0.7) else 3)
        if draw < 0.80:
            return self.relative_clause(head)
        if draw < 0.87:
            return self.reduced_relative(head)
        if draw < 0.91:
            other = self.nouns.plain(kind)
            return NounPhrase(
                (*head.words, "and", *other.words), True, "n" if kind == "person" else head.gender
            )
        if draw < 0.95:
            return head.then(",", *self.nouns.plain("any", self.chance(0.5)).words, ",")
        return self.relative_clause(self.chain(head, 1))

    def written(self, plural: bool) -> NounPhrase:
        """A noun phrase of written English: nouns derived from the encyclopedia."""
        noun = self.pick(self.lexicon.derived) if self.chance(0.75) else self.nouns.noun("thing")
        if self.chance(0.2):
            other = self.pick(self.lexicon.derived)
            noun = Noun(other.singular + noun.singular, other.singular + noun.plural, "t")
        return self.nouns.determine(noun, plural)

    def expository(self) -> tuple[str, ...]:
        """A clause as encyclopedias write them, with one to four attractors that mostly differ in
        number.
        """
        plural = self.chance(0.5)
        subject = self.written(plural)
        for _ in range(1 + (self.chance(0.6)) + (self.chance(0.4)) + (self.chance(0.25))):
            inner = self.written(plural if self.chance(0.25) else not plural)
            link = ("of",) if self.chance(0.45) else self.pick(WRITTEN_LINKS)
            more = ("and", *self.written(self.chance(0.6)).words) if self.chance(0.12) else ()
            subject = subject.then(*link, *inner.words, *more)
        if self.chance(0.12):
            year = str(1800 + int(self.random.random() * 220))
            subject = subject.then(
                *self.pick([("in", year), (",", "however", ","), (",", "in", "particular", ",")])
            )
        draw = self.random.random()
        if draw < 0.35:
            entry = self.pick(self.lexicon.verbs["derived"])
            return (
                *subject.words,
                *self.verbs.finite(subject, entry),
                *self.written(self.chance(0.5)).words,
            )
        if draw < 0.5:
            pool = self.lexicon.verbs["derived_intransitive"]
            return (
                *subject.words,
                *self.verbs.finite(subject, self.pick(pool)),
                *self.verbs.place(),
            )
        if draw < 0.75:
            return (*subject.words, *self.verbs.copular(subject))
        return (*subject.words, *self.verbs.passive(subject))

    def statement(self) -> tuple[str, ...]:
        """Subject and predicate."""
        subject = self.subject()
        return (*subject.words, *self.verbs.any(subject))

    def short_statement(self) -> tuple[str, ...]:
        subject = self.nouns.plain("any")
        return (*subject.words, *self.verbs.any(subject))

    def reflexive(self) -> tuple[str, ...]:
        """A clause that ends in a reflexive."""
        subject = self.subject("person" if self.chance(0.88) else "thing", plain=0.72)
        layer_rest = self.verbs.place() if self.chance(0.15) else ()
        return (*subject.words, *self.verbs.reflexive(subject), *layer_rest)

    def demonstrative(self) -> tuple[str, ...]:
        """A short clause whose object has a demonstrative."""
        subject = self.nouns.plain("person")
        kind = self.pick(["person", "thing", "thing"])
        pool = {"person": "social", "thing": "object"}[kind]
        pool = "derived" if self.chance(0.12) else pool
        verb = self.verbs.finite(subject, self.pick(self.lexicon.verbs[pool]))
        target = self.nouns.demonstrated(kind, self.chance(0.5), self.chance(0.55))
        layer_rest = self.verbs.place() if self.chance(0.15) else ()
        return (*subject.words, *verb, *target.words, *layer_rest)

    def coordinated(self) -> tuple[str, ...]:
        """One subject, two predicates that agree with it."""
        subject = self.subject()
        return (
            *subject.words,
            *self.verbs.any(subject),
            self.pick(["and", "but", "or"]),
            *self.verbs.any(subject),
        )

    def existential(self) -> tuple[str, ...]:
        """“there are many lakes near the town”."""
        plural = self.chance(0.5)
        noun = self.nouns.determine(
            self.nouns.noun("any"),
            plural,
            self.pick(
                [("many",), ("some",), ("two",), ("several",), ("no",)]
                if plural
                else [("a",), ("another",), ("no",), ("one",), ("a",)]
            ),
        )
        return (
            "there",
            *self.verbs.with_auxiliary(self.pick(["present", "past"]), noun),
            *noun.words,
            *self.verbs.place(),
        )

    def question(self) -> tuple[str, ...]:
        """Yes–no and which-questions: the auxiliary comes before its subject."""
        subject = self.subject("any", plain=0.6)
        if self.chance(0.25):
            plural = self.chance(0.5)
            noun = self.nouns.noun("any")
            which = NounPhrase(
                (self.pick(["which", "what"]), *(noun.plural if plural else noun.singular)),
                plural,
                noun.gender,
            )
            return (*which.words, *self.verbs.any(which))
        entry = self.pick(self.lexicon.verbs["social" if subject.gender != "t" else "psych"])
        which_form = self.pick(
            [
                ("present", entry.forms.ing),
                ("past", entry.forms.ing),
                ("do", entry.forms.base),
                ("perfect", entry.forms.participle),
            ]
        )
        lead = (self.pick(["why", "when", "where"]),) if self.chance(0.25) else ()
        word = MARK + self.verbs.auxiliary(which_form[0], subject)
        return (
            *lead,
            word,
            *subject.words,
            which_form[1],
            *entry.particle,
            *self.verbs.object_phrase("person"),
        )

    def embedded(self) -> tuple[str, ...]:
        """“Mary thinks that …”."""
        speaker = self.nouns.plain("person")
        verb = self.verbs.finite(speaker, self.pick(self.lexicon.verbs["clausal"]))
        link = ("that",) if self.chance(0.7) else ()
        inner = self.reflexive() if self.chance(0.2) else self.statement()
        return (*speaker.words, *verb, *link, *inner)
