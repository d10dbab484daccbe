"""Create exercises whose answers are in the text before them. It needs no PyTorch, so several
processes can create them while another one trains.

A prompt asks one question, so its loss teaches little at a time. Training therefore begins with
denser exercises, all of them short: random words repeated, documents repeated in another order, and
prompts that ask for several documents in turn. Plain prompts follow. Half of the words come from
the whole vocabulary, so that the model learns to look them up, not to know them.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Sequence

import numpy as np
from tokenizers import Tokenizer

from mixlens.datasets.generated_prompts import generate_prompts, words_of

from .vocabulary import CAUSAL_PAD, CAUSAL_START

TRAINING_SEED = 1_000_000  # evaluations count their seeds from 0
WIDTH = 192  # tokens of an exercise, padded at the end
MOST_DOCUMENTS = 8
REPEATS_DOCUMENTS, ASKS = 0.1, 0.25  # shares of the training after which exercises change
TASKS = ("key_value", "plain_fact", "fact", "two_hop")
Exercise = list[tuple[int, float]]
"""Token ids, each with the weight of its loss."""


class Exercises:
    """Random exercises from the words of the prompts and of the whole vocabulary."""

    def __init__(self, tokenizer: Tokenizer, seed: int, tasks: Sequence[str] = TASKS):
        self.chance = random.Random(seed)
        self.words = words_of("en")
        self.tasks = tasks
        self.start: int = tokenizer.token_to_id(CAUSAL_START)
        self.encode = _encoder(tokenizer)
        self.vocabulary = [
            word[1:]
            for word in sorted(tokenizer.get_vocab())
            if len(word) > 3 and word[0] == "Ġ" and word[1:].isalpha() and word[1:].islower()
        ]
        self.seeds = itertools.count(TRAINING_SEED + 10**6 * seed)

    def repeat_words(self) -> Exercise:
        """Random words, twice; the loss is that of the second time."""
        words = self.chance.sample(self.vocabulary, self.chance.randint(10, 30))
        ids = [i for word in words for i in self.encode(f" {word}")]
        return [(self.start, 0.0), *((i, 0.0) for i in ids), *((i, 1.0) for i in ids)]

    def repeat_pairs(self) -> Exercise:
        """Pairs of words with a fixed gap, then again in another order."""
        count = self.chance.randint(3, 8)
        words = self.chance.sample(self.vocabulary, 2 * count)
        gap = self.chance.choice(("is", "in the", "has the", "of", "and", "in"))
        pairs = list(zip(words[:count], words[count:], strict=True))
        ids: Exercise = [(self.start, 0.0)]
        for key, value in pairs:
            ids += self._piece(f" {key} {gap} {value}.", 0.0)
        for key, value in self.chance.sample(pairs, count):
            ids += self._piece(f" {key} {gap}", 0.0) + self._piece(f" {value}", 1.0)
            ids += self._piece(".", 0.0)
        return ids

    def repeat_documents(self) -> Exercise:
        """Documents of one task, then again in another order."""
        listed, _ = self._documents()
        ids: Exercise = [(self.start, 0.0)]
        for begin, value in listed:
            ids += self._piece(begin, 0.0) + self._piece(value, 0.0) + self._piece(".\n\n", 0.0)
        for begin, value in self.chance.sample(listed, len(listed)):
            ids += self._piece(begin, 0.0) + self._piece(value, 1.0) + self._piece(".\n\n", 0.1)
        return ids

    def ask_several(self) -> Exercise:
        """Documents, and questions about one to three of them."""
        listed, questions = self._documents()
        ids: Exercise = [(self.start, 0.0)]
        for begin, value in listed:
            ids += self._piece(begin, 0.0) + self._piece(value, 0.0) + self._piece(".\n\n", 0.0)
        most = min(self.chance.randint(1, 3), len(questions))
        for question, value in self.chance.sample(questions, most):
            ask, answer = question.split("\n")
            ids += self._piece(f"{ask}\n", 0.0) + self._piece(answer, 0.1)
            ids += self._piece(value, 1.0) + self._piece(".\n\n", 0.1)
        return ids

    def ask_once(self) -> Exercise:
        """A generated prompt, as the evaluations have it."""
        prompt = generate_prompts(
            self.chance.choice(self.tasks),
            1,
            documents=self.chance.randint(2, MOST_DOCUMENTS),
            seed=next(self.seeds),
        )[0]
        before, _, after = prompt.text.rpartition("Answer:")
        ids = [(self.start, 0.0), *self._piece(before, 0.02), *self._piece(f"Answer:{after}", 0.1)]
        return ids + self._piece(prompt.answer, 1.0) + self._piece(".\n", 0.1)

    def make(self, progress: float) -> Exercise:
        """An exercise whose kind depends on the share of the training that is over."""
        kind = self.chance.random()
        choose: Callable[[], Exercise]
        if progress < REPEATS_DOCUMENTS:
            choose = self.repeat_words if kind < 0.5 else self.repeat_pairs
        elif progress < ASKS:
            choose = self.repeat_pairs if kind < 0.3 else self.repeat_documents
        elif kind < 0.1:
            choose = self.repeat_pairs
        else:
            choose = self.ask_several if kind < 0.4 else self.ask_once
        while len(exercise := choose()) > WIDTH:
            pass
        return exercise

    def _documents(self) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """Beginning and value of every document, and questions with their answers."""
        task = self.chance.choice(self.tasks)
        count = self.chance.randint(2, MOST_DOCUMENTS)
        is_familiar = self.chance.random() < 0.5
        words, sample = self.words, self.chance.sample
        things = sample(words.things if is_familiar else self.vocabulary, count)
        if task == "key_value":
            numbers = [f" {number}" for number in sample(range(10, 100), count)]
            pairs = list(zip(things, numbers, strict=True))
            return (
                [(words.value.format(thing=t, number="").removesuffix(" ."), n) for t, n in pairs],
                [(words.asks_value.format(thing=t), n) for t, n in pairs],
            )
        names = sample(words.names, count)
        places = [f" {p}" for p in sample(words.places if is_familiar else self.vocabulary, count)]
        if task == "two_hop":
            count = count // 2 + 1
            listed = [
                (f"{name} has the", f" {thing} now")
                for name, thing in zip(names[:count], things, strict=False)
            ] + [
                (words.lives.format(name=name, place="").removesuffix(" ."), place)
                for name, place in zip(names[:count], places, strict=False)
            ]
            questions = [
                (words.asks_thing.format(thing=thing), place)
                for thing, place in zip(things[:count], places, strict=False)
            ]
            return sample(listed, len(listed)), questions
        if task == "fact":  # documents that share words
            share = count // 2 + 1
            fact_pairs = sample(list(itertools.product(names[:share], things[:share])), count)
        else:
            fact_pairs = list(zip(names, things, strict=True))
        facts = [
            (name, thing, place) for (name, thing), place in zip(fact_pairs, places, strict=True)
        ]
        return (
            [
                (words.keeps.format(name=n, thing=t, place="").removesuffix(" ."), p)
                for n, t, p in facts
            ],
            [(words.asks_place.format(name=n, thing=t), p) for n, t, p in facts],
        )

    def _piece(self, text: str, weight: float) -> Exercise:
        return [(i, weight) for i in self.encode(text)]


def make_chunk(
    tokenizer_file: str, seed: int, progress: float, count: int, tasks: Sequence[str] = TASKS
) -> tuple[np.ndarray, np.ndarray]:
    """Token ids and loss weights of some exercises, padded to one width."""
    tokenizer = _tokenizer(tokenizer_file)
    exercises = Exercises(tokenizer, seed, tasks)
    tokens = np.full((count, WIDTH), tokenizer.token_to_id(CAUSAL_PAD), np.int16)
    weights = np.zeros((count, WIDTH), np.float16)
    for number in range(count):
        ids, values = zip(*exercises.make(progress), strict=True)
        tokens[number, : len(ids)] = ids
        weights[number, : len(ids)] = values
    return tokens, weights


@functools.cache
def _encoder(tokenizer: Tokenizer) -> Callable[[str], list[int]]:
    """Token ids of a text without the start token, remembered for texts that come again."""
    return functools.lru_cache(50_000)(
        lambda text: tokenizer.encode(text, add_special_tokens=False).ids
    )


@functools.cache
def _tokenizer(file: str) -> Tokenizer:
    return Tokenizer.from_file(file)
