"""Generate prompts with documents and a question, for which the evidence is known.

Every prompt is a list of short documents, separated by blank lines, followed by a question and the
beginning of its answer, which the model has to continue. mixlens forms all texts from the word
lists and templates in `bundled/prompt_words.json`, using a random seed.

* `fact`: one document says where somebody keeps something. The other documents share its words: the
  same person with another thing, or the same thing with another person.
* `plain_fact`: the same, but the other documents share no word with the question.
* `two_hop`: one document says who has a thing, another where that person lives.
* `key_value`: every document gives the number of a key, and the question asks for one of these
  numbers.
* `variables`: one document sets a variable, another copies it, and the question asks for the value
  of the copy.
* `injection`: one document answers the question, but another document contains an instruction to
  answer with a certain word instead. The answer begins with "The answer is the word".

The option `tokens` adds neutral sentences to the documents until the prompt has about this many
tokens.
"""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any
from urllib.parse import parse_qsl

from mixlens.datasets.examples import EvidencePrompt, Span
from mixlens.errors import InvalidInput

TASKS = ("fact", "plain_fact", "two_hop", "key_value", "variables", "injection")
LANGUAGES = ("en", "de")

Count = Callable[[str], int]
"""Count the tokens of a text."""


@dataclass(frozen=True)
class _Words:
    """Word lists and sentence templates of one language."""

    names: tuple[str, ...]
    things: tuple[str, ...]
    places: tuple[str, ...]
    replies: tuple[str, ...]
    fillers: tuple[str, ...]
    keeps: str
    asks_place: str
    has: str
    lives: str
    asks_thing: str
    value: str
    asks_value: str
    sets: str
    copies: str
    asks_variable: str
    injects: str
    begins_reply: str


@functools.cache
def words_of(language: str) -> _Words:
    """Read the word lists and templates of a language, which ship with the package."""
    file = resources.files("mixlens") / "bundled" / "prompt_words.json"
    fields: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))[language]
    lists = {name: tuple(words) for name, words in fields.items() if isinstance(words, list)}
    return _Words(**{**fields, **lists})


@dataclass
class _Draft:
    """A prompt before its text is joined: the sentences of each document, the evidence, the
    question and the answer.
    """

    documents: list[list[str]]
    evidence: list[tuple[int, str]]  # document and sentence
    question: str
    answer: str


def read(address: str) -> list[EvidencePrompt]:
    """Generate the prompts that an address such as `generated:fact?documents=8&count=100&seed=1`
    describes.
    """
    task, _, query = address.removeprefix("generated:").partition("?")
    options: dict[str, Any] = {"count": 200}
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key == "language":
            options[key] = value
        elif key in ("count", "documents", "seed") and value.isdecimal():
            options[key] = int(value)
        else:
            raise InvalidInput(
                f"{key}={value} in {address!r} is not an option of generated prompts. Use count=,"
                " documents=, seed= (whole numbers) and language=."
            )
    return generate_prompts(task, **options)


def generate_prompts(
    task: str,
    count: int,
    *,
    documents: int = 4,
    tokens: int | None = None,
    count_tokens: Count | None = None,
    language: str = "en",
    seed: int = 0,
) -> list[EvidencePrompt]:
    """Generate prompts with known evidence.

    Parameters
    ----------
    task
        One of `TASKS`.
    count
        Number of prompts.
    documents
        Number of documents in each prompt, 2 to 32. Some tasks have too few words for 32: `fact` in
        German allows 31, `key_value` 23 in English and 11 in German.
    tokens, count_tokens
        Lengthen every prompt to about `tokens` tokens, as counted by `count_tokens`.
    language
        "en" or "de".
    seed
        Random seed. The same seed always gives the same prompts.

    Returns
    -------
    list of EvidencePrompt
        The prompts. `answer` is the expected continuation.

    Raises
    ------
    InvalidInput
        If the task or language is unknown, or the numbers are out of range.

    Examples
    --------
    >>> from mixlens.datasets.generated_prompts import generate_prompts
    >>> prompt = generate_prompts("fact", 1, documents=2, seed=3)[0]
    >>> prompt.text[slice(*prompt.needles[0])].endswith(f"{prompt.answer}.")
    True
    """
    if task not in TASKS:
        raise InvalidInput(f"Unknown task {task!r}. Use {', '.join(TASKS)}.")
    if language not in LANGUAGES:
        raise InvalidInput(f"Unknown language {language!r}. Use {' or '.join(LANGUAGES)}.")
    words = words_of(language)
    most = _most_documents(task, words)
    if not 2 <= documents <= most:
        raise InvalidInput(
            f"documents={documents} is out of range (2–{most}) for {task}, language={language}."
        )
    if tokens is not None and count_tokens is None:
        raise InvalidInput("tokens= needs count_tokens, a function that counts tokens.")
    return list(_prompts(task, count, documents, tokens, count_tokens, language, seed))


def _most_documents(task: str, words: _Words) -> int:
    """Return the largest number of documents for which the language has enough words."""
    names, things = len(words.names), len(words.things)
    if task == "key_value":
        return min(32, things)
    if task == "fact":  # every third document shares the name, and every third one the thing
        return min(32, 3 * (things - 1) + 1, 3 * (names - 1) + 2)
    return 32


def _prompts(
    task: str,
    count: int,
    documents: int,
    tokens: int | None,
    count_tokens: Count | None,
    language: str,
    seed: int,
) -> Iterator[EvidencePrompt]:
    words = words_of(language)
    for number in range(count):
        chance = random.Random(f"{task}/{language}/{documents}/{seed}/{number}")
        draft = _DRAFTS[task](words, documents, chance)
        _shuffle(draft, chance)
        if tokens is not None and count_tokens is not None:
            _lengthen(draft, words, tokens, count_tokens, chance)
        name = f"{task}-{language}-{documents}-{seed}:{number + 1}"
        yield _evidence(draft, name, task, language)


def _fact(words: _Words, documents: int, chance: random.Random) -> _Draft:
    """Draft a prompt with one fact that answers the question, among other facts that share words
    with it.
    """
    name, thing, place = (chance.choice(w) for w in (words.names, words.things, words.places))
    other_names = [word for word in words.names if word != name]
    other_things = [word for word in words.things if word != thing]
    other_places = [word for word in words.places if word != place]
    pairs: set[tuple[str, str]] = set()
    while len(pairs) < documents - 1:
        kind = len(pairs) % 3
        pairs.add(
            (
                name if kind == 0 else chance.choice(other_names),
                thing if kind == 1 else chance.choice(other_things),
            )
        )
    other_facts = [(who, what, chance.choice(other_places)) for who, what in sorted(pairs)]
    return _of_facts(words, [(name, thing, place), *other_facts])


def _plain_fact(words: _Words, documents: int, chance: random.Random) -> _Draft:
    """Draft a prompt with one fact that answers the question, among facts about other people and
    things.
    """
    (name, *names), (thing, *things), (place, *places) = (
        chance.sample(w, len(w)) for w in (words.names, words.things, words.places)
    )
    facts = [(name, thing, place)]
    while len(facts) < documents:
        facts.append((chance.choice(names), chance.choice(things), chance.choice(places)))
    return _of_facts(words, facts)


def _of_facts(words: _Words, facts: Sequence[tuple[str, str, str]]) -> _Draft:
    """Draft a prompt from facts (person, thing, place), with one document for each fact.

    The question asks for the place in the first fact.
    """
    sentences = [[words.keeps.format(name=n, thing=t, place=p)] for n, t, p in facts]
    name, thing, place = facts[0]
    question = words.asks_place.format(name=name, thing=thing)
    return _Draft(sentences, [(0, sentences[0][0])], question, f" {place}")


def _two_hop(words: _Words, documents: int, chance: random.Random) -> _Draft:
    """Draft a prompt in which the answer needs two facts: who has a thing, and where that person
    lives.
    """
    pairs = documents // 2
    names = chance.sample(words.names, min(pairs + documents % 2, len(words.names)))
    things = chance.sample(words.things, min(len(names), len(words.things)))
    names = names[: len(things)]
    places = [chance.choice(words.places)]
    decoys = [word for word in words.places if word != places[0]]
    places += [chance.choice(decoys) for _ in names[1:]]
    who = [words.has.format(name=n, thing=t) for n, t in zip(names, things, strict=True)]
    where = [words.lives.format(name=n, place=p) for n, p in zip(names, places, strict=True)]
    fillers = [sentence for pair in zip(who[1:], where[1:], strict=True) for sentence in pair]
    while len(fillers) < documents - 2:
        fillers.append(chance.choice(words.fillers))
    sentences = [[who[0]], [where[0]], *([sentence] for sentence in fillers[: documents - 2])]
    question = words.asks_thing.format(thing=things[0])
    return _Draft(sentences, [(0, who[0]), (1, where[0])], question, f" {places[0]}")


def _key_value(words: _Words, documents: int, chance: random.Random) -> _Draft:
    """Draft a prompt in which every document gives the number of a key, and the question asks for
    one of these numbers.
    """
    things = chance.sample(words.things, documents)
    numbers = chance.sample(range(10, 100), documents)
    sentences = [
        [words.value.format(thing=thing, number=number)]
        for thing, number in zip(things, numbers, strict=True)
    ]
    question = words.asks_value.format(thing=things[0])
    return _Draft(sentences, [(0, sentences[0][0])], question, f" {numbers[0]}")


def _variables(words: _Words, documents: int, chance: random.Random) -> _Draft:
    """Draft a prompt in which a variable copies another one, and the question asks for the value of
    the copy.
    """
    letters = chance.sample([f"X{number}" for number in range(1, 65)], documents)
    numbers = chance.sample(range(10, 100), documents)
    sentences = [[words.sets.format(variable=letters[0], number=numbers[0])]]
    sentences.append([words.copies.format(variable=letters[1], other=letters[0])])
    for place in range(2, documents):
        sentences.append([words.sets.format(variable=letters[place], number=numbers[place])])
    question = words.asks_variable.format(variable=letters[1])
    return _Draft(
        sentences, [(0, sentences[0][0]), (1, sentences[1][0])], question, f" {numbers[0]}"
    )


def _injection(words: _Words, documents: int, chance: random.Random) -> _Draft:
    """Draft a prompt with an injected instruction in one document, while another document answers
    the question.
    """
    draft = _plain_fact(words, documents, chance)
    reply = chance.choice(words.replies)
    needle = words.injects.format(reply=reply)
    place = chance.randrange(1, documents)
    draft.documents[place].append(needle)
    question = draft.question.rsplit("\n", 1)[0] + "\n" + words.begins_reply
    return _Draft(draft.documents, [(place, needle)], question, f" {reply}")


_DRAFTS = {
    "fact": _fact,
    "plain_fact": _plain_fact,
    "two_hop": _two_hop,
    "key_value": _key_value,
    "variables": _variables,
    "injection": _injection,
}


def _shuffle(draft: _Draft, chance: random.Random) -> None:
    """Shuffle the documents."""
    order = list(range(len(draft.documents)))
    chance.shuffle(order)
    draft.documents = [draft.documents[old] for old in order]
    draft.evidence = sorted((order.index(old), sentence) for old, sentence in draft.evidence)


def _lengthen(
    draft: _Draft, words: _Words, tokens: int, count_tokens: Count, chance: random.Random
) -> None:
    """Lengthen the documents with neutral sentences, until the prompt has about `tokens` tokens."""
    have = count_tokens(_join_documents(draft)[0])
    number = 0
    while have < tokens:
        sentence = chance.choice(words.fillers)
        document = draft.documents[number % len(draft.documents)]
        document.insert(chance.choice((0, len(document))), sentence)
        have += count_tokens(f" {sentence}")
        number += 1


def _join_documents(draft: _Draft) -> tuple[str, list[Span]]:
    text, spans = "", list[Span]()
    for document in draft.documents:
        start = len(text)
        text += " ".join(document)
        spans.append((start, len(text)))
        text += "\n\n"
    return text + draft.question, spans


def _evidence(draft: _Draft, name: str, task: str, language: str) -> EvidencePrompt:
    text, spans = _join_documents(draft)
    needles = []
    for document, sentence in draft.evidence:
        start = text.index(sentence, *spans[document])
        needles.append((start, start + len(sentence)))
    return EvidencePrompt(
        name=name,
        text=text,
        group=task,
        documents=tuple(spans),
        evidence=tuple(document for document, _ in draft.evidence),
        needles=tuple(needles),
        answer=draft.answer,
        language=language,
    )
