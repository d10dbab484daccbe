"""Find the word that decides between the two sentences of a BLiMP pair, for the five paradigms of
Mohebbi et al. (2023, §4.1).

| paradigm (UID) | target | cue |
|---|---|---|
| anaphor_number_agreement | the reflexive | head of its antecedent, the subject |
| determiner_noun_agreement_2, …_with_adj_2 | the demonstrative | the noun |
| distractor_agreement_relational_noun | the verb | head of the subject, not of its phrase |
| regular_plural_subject_verb_agreement_1 | the verb | head of the subject |

The paper took cues from a dependency parser and kept 4,276 of 5,000 pairs. mixlens uses its own
rules. It keeps a pair if the sentences differ in exactly one word and the cue does not contradict
the grammatical number of the target ("Those drivers disgusts Dan" is skipped).

The rules cover the simple noun phrases of BLiMP and nothing more. A subject with an adjective or a
relative clause is skipped or, if the adjective looks like a noun before a verb, gets a wrong cue.
In "a lot of ladies" the cue is "ladies", while a dependency parser returns "lot" as the head. A
name of several words is one cue. Determiners ("these", "every") also show the number, but, as in
the paper, they are not marked as cues.
"""

from __future__ import annotations

from collections.abc import Sequence

from mixlens.datasets.dataset import Dataset
from mixlens.errors import InvalidInput

PAPER_TOTAL = 4276
SINGULAR, PLURAL = "singular", "plural"
NUMBERS = {
    **dict.fromkeys(
        ("this", "that", "is", "was", "has", "does", "himself", "herself", "itself"), SINGULAR
    ),
    **dict.fromkeys(("these", "those", "are", "were", "have", "do", "themselves"), PLURAL),
}
COMPOUNDS = {
    "art": "galler",
    "college": "campus",
    "grocery": "store",
    "high": "school",
    "movie": "theater",
    "newspaper": "article",
    "public": "park",
}  # compound nouns of BLiMP: the first word, and the beginning of the second


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


DETERMINERS = _set("the a an this that these those every each some all most many few several no")
PREPOSITIONS = _set("of about")
IRREGULAR_PLURALS = _set(
    "men women people children mice geese teeth feet deer sheep fish oxen cacti alumni phenomena"
)
AUXILIARIES = _set("is was has had does did can cannot could will would should might may must")
IRREGULAR_PASTS = _set(
    "hurt upset saw found fled thought forgot knew hid left met heard led brought bought built sold"
    " told wrote read"
)

Words = Sequence[str]
Slice = tuple[int, int]  # word indices: first, and one after the last


def cue(paradigm: str, words: Words, target: int, foil: str) -> tuple[Slice, str] | None:
    """Return the word range of the cue and its grammatical number, or None for a paradigm without
    rules.
    """
    if paradigm not in PARADIGMS:
        return None
    number = number_of(words[target], foil)
    first, last = PARADIGMS[paradigm](words, target)
    head = words[last - 1]
    if (number == PLURAL) != looks_plural(head) and not (
        number == SINGULAR and _is_name(words, first, last)
    ):
        raise InvalidInput(
            f"the target {words[target]!r} is {number}, but its cue {head!r} seems not to be"
        )
    return (first, last), number


def number_of(target: str, foil: str) -> str:
    """Return the grammatical number of the target, "singular" or "plural".

    Target and foil are looked up in a list of known words. If either is missing from the list, both
    are treated as verb forms, and the form that ends in -s is the singular.
    """
    if target.lower() in NUMBERS and foil.lower() in NUMBERS:
        numbers = NUMBERS[target.lower()], NUMBERS[foil.lower()]
    else:
        numbers = (SINGULAR, PLURAL) if len(target) > len(foil) else (PLURAL, SINGULAR)
        if (
            len(target) == len(foil)
            or not max(target, foil, key=len).endswith("s")
            or target[:2] != foil[:2]
        ):
            raise InvalidInput(
                f"{target!r} (foil {foil!r}) is neither singular nor plural by a known rule"
            )
    if numbers[0] == numbers[1]:
        raise InvalidInput(f"{target!r} and {foil!r} are both {numbers[0]}")
    return numbers[0]


def looks_plural(noun: str) -> bool:
    """Return whether a noun looks plural by its form or is a known irregular plural."""
    lowered = noun.lower()
    return lowered in IRREGULAR_PLURALS or (
        lowered.endswith("s") and not lowered.endswith(("ss", "us", "is", "'s"))
    )


def of_noun(words: Words, target: int) -> Slice:
    """Return the word range of the noun to which a determiner belongs.

    In these paradigms, the noun is the last word of the sentence.
    """
    if target + 1 >= len(words):
        raise InvalidInput("no noun follows the determiner")
    return len(words) - 1, len(words)


def of_subject(words: Words, target: int) -> Slice:
    """Return the word range of the head of the subject. `target` is the position of the verb."""
    first = _noun_phrase(words)
    last = next((place for place in range(first, target) if words[place] in PREPOSITIONS), target)
    return _head(words, first, last)


def of_antecedent(words: Words, target: int) -> Slice:
    """Return the word range of the head of the subject. `target` is the position of a reflexive
    that refers to the subject.
    """
    first = _noun_phrase(words)
    last = first + 1
    while last < target and _goes_on(words[last - 1], words[last]):
        last += 1
    verb = words[last] if last < target else ""
    finite = verb in AUXILIARIES | IRREGULAR_PASTS or verb.endswith(("s", "ed"))
    if not verb or not (finite or looks_plural(words[last - 1])):
        raise InvalidInput(f"no verb after {' '.join(words[:last])!r}")
    return _head(words, first, last)


def _noun_phrase(words: Words) -> int:
    """Return the index of the first word after any determiner at the start of the sentence."""
    if [word.lower() for word in words[:3]] == ["a", "lot", "of"]:
        return 3
    return int(words[0].lower() in DETERMINERS)


def _goes_on(word: str, following: str) -> bool:
    """Return whether two adjacent words belong to the same compound noun or name."""
    second = COMPOUNDS.get(word.lower())
    return (second is not None and following.startswith(second)) or (
        word[:1].isupper() and following[:1].isupper()
    )


def _head(words: Words, first: int, last: int) -> Slice:
    if last <= first:
        raise InvalidInput(f"no subject in {' '.join(words[:last])!r}")
    return (first, last) if _is_name(words, first, last) else (last - 1, last)


def _is_name(words: Words, first: int, last: int) -> bool:
    return all(word[:1].isupper() for word in words[first:last])


PARADIGMS = {
    "anaphor_number_agreement": of_antecedent,
    "determiner_noun_agreement_2": of_noun,
    "determiner_noun_agreement_with_adj_2": of_noun,
    "distractor_agreement_relational_noun": of_subject,
    "regular_plural_subject_verb_agreement_1": of_subject,
}


def counts(dataset: Dataset) -> str:
    """Return a text table with the number of examples in each paradigm with cues.

    The last line compares the total with that of the paper.
    """
    sizes = {group: size for group, size in dataset.groups.items() if group in PARADIGMS}
    lines = [f"{group:<42}{size:>6,}" for group, size in sizes.items()]
    return "\n".join(
        [*lines, f"{'all':<42}{sum(sizes.values()):>6,}   (Mohebbi et al. 2023: {PAPER_TOTAL:,})"]
    )
