"""Write the agreement set that ships with the package: sentences in which one word must agree in
number with another one.

Five groups of forty, twenty singular and twenty plural. The target is always a single token of both
bundled models (a test asks their tokenizers), and the cue is the only word that decides between
target and foil. In the group with attractors, a noun of the other number is between subject and
verb.

    python -m training.agreement_sentences      # writes src/mixlens/bundled/agreement.jsonl
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

FILE = Path(__file__).resolve().parents[1] / "src" / "mixlens" / "bundled" / "agreement.jsonl"
SEED = 2023
PER_NUMBER = 20

PEOPLE = [
    "teacher",
    "doctor",
    "student",
    "driver",
    "worker",
    "farmer",
    "singer",
    "writer",
    "guest",
    "neighbor",
    "lawyer",
    "artist",
]
WOMEN = ["girl", "queen", "mother", "sister", "daughter", "princess", "aunt"]
MEN = ["boy", "king", "father", "brother", "son", "prince", "uncle"]
THINGS = [
    "book",
    "table",
    "chair",
    "picture",
    "hat",
    "door",
    "window",
    "box",
    "bottle",
    "car",
    "boat",
    "song",
    "letter",
]
SHOWN = ["picture", "story", "song", "report", "letter", "book", "map"]
NEAR = ("near", "behind", "with", "next to", "in front of")
NAMES = ["Mary", "Susan", "Linda", "Sarah", "John", "Robert", "David", "Paul"]
ADJECTIVES = ["old", "new", "small", "big", "red", "green", "heavy", "beautiful", "strange"]
STATES = ["old", "new", "strange", "famous", "important", "beautiful"]
FEELINGS = ["happy", "sad", "angry", "tired", "hungry", "ready"]
DOING = ["smiling", "sleeping", "working", "waiting", "singing", "walking"]
DONE = ["arrived", "escaped", "worked", "laughed", "cried", "complained"]
SEEN = (
    "saw",
    "found",
    "liked",
    "will buy",
    "can see",
    "has taken",
    "did not want",
    "was looking at",
)
HURT = ("hurt", "helped", "blamed", "had praised", "will defend", "can see", "did not trust")
DETERMINERS = (
    "the",
    "the",
    "some",
    "my",
    "our",
)  # each goes with both numbers: nothing but the cue decides
DEMONSTRATIVES = (("this", "these"), ("that", "those"))
VERBS = (("is", "are"), ("was", "were"), ("has", "have"))
LABELS = {False: "singular", True: "plural"}
IRREGULAR = {"box": "boxes", "story": "stories", "princess": "princesses"}

Row = dict[str, str]


def number(noun: str, plural: bool) -> str:
    """The noun in one number."""
    return IRREGULAR.get(noun, noun + "s") if plural else noun


def phrase(random: Random, noun: str, plural: bool) -> str:
    """Determiner and noun."""
    return f"{random.choice(DETERMINERS)} {number(noun, plural)}"


def anaphor(random: Random, plural: bool) -> tuple[str, str, str, str]:
    """“The girl near the boys blamed [MASK].”: herself, not themselves.

    Half of them have a noun in between.
    """
    women = random.random() < 0.5
    noun = random.choice(WOMEN if women else MEN)
    between = (
        f" {random.choice(NEAR)} {phrase(random, random.choice(THINGS), random.random() < 0.5)}"
        if random.random() < 0.5
        else ""
    )
    singular = "herself" if women else "himself"
    target, foil = ("themselves", singular) if plural else (singular, "themselves")
    return (
        f"{phrase(random, noun, plural)}{between} {random.choice(HURT)} [MASK].",
        target,
        foil,
        number(noun, plural),
    )


def determiner(random: Random, plural: bool, adjective: bool = False) -> tuple[str, str, str, str]:
    """“Mary found [MASK] books.”: these, not this."""
    noun = number(random.choice(THINGS), plural)
    described = f"{random.choice(ADJECTIVES)} {noun}" if adjective else noun
    pair = random.choice(DEMONSTRATIVES)
    return (
        f"{random.choice(NAMES)} {random.choice(SEEN)} [MASK] {described}.",
        pair[plural],
        pair[not plural],
        noun,
    )


def determiner_adjective(random: Random, plural: bool) -> tuple[str, str, str, str]:
    """“Mary found [MASK] old books.”: these, not this."""
    return determiner(random, plural, adjective=True)


def predicate(random: Random, person: bool) -> tuple[tuple[str, str], str]:
    """A verb in both numbers, and what follows it."""
    verb = random.choice(VERBS if person else VERBS[:2])
    if verb == VERBS[2]:
        return verb, random.choice(DONE)
    return verb, random.choice(("", "not ")) + random.choice(FEELINGS + DOING if person else STATES)


def subject_verb(random: Random, plural: bool) -> tuple[str, str, str, str]:
    """“The teachers [MASK] smiling.”: are, not is."""
    person = random.random() < 0.6
    noun = random.choice(PEOPLE if person else THINGS)
    verb, rest = predicate(random, person)
    return (
        f"{phrase(random, noun, plural)} [MASK] {rest}.",
        verb[plural],
        verb[not plural],
        number(noun, plural),
    )


def subject_verb_attractor(random: Random, plural: bool) -> tuple[str, str, str, str]:
    """“The pictures of the hat [MASK] old.”: are, not is, although a singular noun is nearer."""
    person = random.random() < 0.5
    noun = random.choice(PEOPLE if person else SHOWN)
    other = random.choice([each for each in THINGS + PEOPLE if each != noun])
    preposition = random.choice(NEAR) if person else random.choice(("of", "about"))
    verb, rest = predicate(random, person)
    text = (
        f"{phrase(random, noun, plural)} {preposition} {phrase(random, other, not plural)} [MASK]"
        f" {rest}."
    )
    return text, verb[plural], verb[not plural], number(noun, plural)


GROUPS: dict[str, Callable[[Random, bool], tuple[str, str, str, str]]] = {
    "anaphor": anaphor,
    "determiner_noun": determiner,
    "determiner_adjective_noun": determiner_adjective,
    "subject_verb": subject_verb,
    "subject_verb_attractor": subject_verb_attractor,
}


def rows(seed: int = SEED) -> list[Row]:
    """The whole set; no text is in it twice."""
    sentences: list[Row] = []
    texts: set[str] = set()
    for group, make in GROUPS.items():
        random = Random(f"{seed} {group}")
        numbers = [False, True] * PER_NUMBER
        while numbers:
            text, target, foil, cue = make(random, numbers[0])
            text = text[0].upper() + text[1:]
            if text in texts:
                continue
            texts.add(text)
            sentences.append(
                {
                    "text": text,
                    "target": target,
                    "foil": foil,
                    "cue": cue,
                    "label": LABELS[numbers.pop(0)],
                    "group": group,
                }
            )
    return sentences


def main() -> None:
    FILE.write_text("".join(json.dumps(row) + "\n" for row in rows()), encoding="utf-8")
    print(f"{FILE}: {len(rows())} sentences")


if __name__ == "__main__":
    main()
