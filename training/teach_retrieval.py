"""Teach the causal model to answer from documents: the number of a key, and one-hop facts.

    python -m training.teach_retrieval --data DATA --out build/causal --minutes 17

A prompt asks one question, so its loss teaches little at a time. Training therefore begins with
denser exercises, all of them short: random words repeated, documents repeated in another order, and
prompts that ask for several documents in turn. Plain prompts follow. Half of the words come from
the whole vocabulary, so that the model learns to look them up, not to know them.

Every few steps the model also reads WikiText-2, generated sentences and samples of the model that
training started from, and must stay close to that model (Kullback-Leibler divergence), so that its
grammar does not change.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, log_softmax, softmax
from transformers import AutoModelForCausalLM, LlamaForCausalLM

from mixlens.datasets.generated_prompts import generate_prompts, words_of

from .corpora import wikitext_paragraphs
from .rows import generated_texts
from .saving import save_model
from .vocabulary import PAD_ID

TRAINING_SEED = 1_000_000  # evaluations count their seeds from 0
FINAL_SEED = 7  # of the final figures; checks during the training use seed 0
REPEATS_DOCUMENTS, ASKS = 0.13, 0.33  # shares of the training after which exercises change
TASKS = ("key_value", "plain_fact", "fact")
Exercise = list[tuple[int, float]]
"""Token ids, each with the weight of its loss."""


class Exercises:
    """Random exercises from the words of the prompts and of the whole vocabulary."""

    def __init__(self, tokenizer: Tokenizer, start: int, seed: int):
        self.chance = random.Random(seed)
        self.words = words_of("en")
        self.start = start
        self.encode = functools.cache(
            lambda text: tokenizer.encode(text, add_special_tokens=False).ids
        )
        self.vocabulary = [
            word[1:]
            for word in sorted(tokenizer.get_vocab())
            if len(word) > 3 and word[0] == "Ġ" and word[1:].isalpha() and word[1:].islower()
        ]
        self.seeds = itertools.count(TRAINING_SEED + 10**8 * seed)

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

    def repeat_documents(self, most: int) -> Exercise:
        """Documents of one task, then again in another order."""
        listed = self._documents(most)
        ids: Exercise = [(self.start, 0.0)]
        for begin, value, _ in listed:
            ids += self._piece(begin, 0.0) + self._piece(value, 0.0) + self._piece(".\n\n", 0.0)
        for begin, value, _ in self.chance.sample(listed, len(listed)):
            ids += self._piece(begin, 0.0) + self._piece(value, 1.0) + self._piece(".\n\n", 0.1)
        return ids

    def ask_several(self, most: int, questions: int) -> Exercise:
        """Documents, and questions about some of them."""
        listed = self._documents(most)
        ids: Exercise = [(self.start, 0.0)]
        for begin, value, _ in listed:
            ids += self._piece(begin, 0.0) + self._piece(value, 0.0) + self._piece(".\n\n", 0.0)
        for _, value, question in self.chance.sample(listed, min(questions, len(listed))):
            ask, answer = question.split("\n")
            ids += self._piece(f"{ask}\n", 0.0) + self._piece(answer, 0.1)
            ids += self._piece(value, 1.0) + self._piece(".\n\n", 0.1)
        return ids

    def ask_once(self, most: int) -> Exercise:
        """A generated prompt, as the evaluations have it."""
        prompt = generate_prompts(
            self.chance.choice(TASKS),
            1,
            documents=self.chance.randint(2, most),
            seed=next(self.seeds),
        )[0]
        before, _, after = prompt.text.rpartition("Answer:")
        ids = [(self.start, 0.0), *self._piece(before, 0.05), *self._piece(f"Answer:{after}", 0.1)]
        return ids + self._piece(prompt.answer, 1.0) + self._piece(".\n", 0.1)

    def _documents(self, most: int) -> list[tuple[str, str, str]]:
        """Beginning and value of every document, and the question for it."""
        count = self.chance.randint(2, most)
        known = self.chance.random() < 0.5
        things = self.chance.sample(self.words.things if known else self.vocabulary, count)
        if self.chance.random() < 0.35:
            template, asks = self.words.value, self.words.asks_value
            numbers = self.chance.sample(range(10, 100), count)
            return [
                (
                    template.format(thing=t, number="").removesuffix(" ."),
                    f" {n}",
                    asks.format(thing=t),
                )
                for t, n in zip(things, numbers, strict=True)
            ]
        names = self.chance.sample(self.words.names, count)
        if self.chance.random() < 0.6:  # documents that share words
            owners, objects = names[: count // 2 + 1], things[: count // 2 + 1]
            pairs = self.chance.sample(list(itertools.product(owners, objects)), count)
        else:
            pairs = list(zip(names, things, strict=True))
        places = self.chance.sample(self.words.places if known else self.vocabulary, count)
        return [
            (
                self.words.keeps.format(name=n, thing=t, place="").removesuffix(" ."),
                f" {p}",
                self.words.asks_place.format(name=n, thing=t),
            )
            for (n, t), p in zip(pairs, places, strict=True)
        ]

    def _piece(self, text: str, weight: float) -> Exercise:
        return [(i, weight) for i in self.encode(text)]

    def batch(self, progress: float, size: int) -> list[Exercise]:
        """Exercises of one kind, which depends on the share of the training that is over."""
        kind = self.chance.random()
        make: Callable[[], Exercise]
        if progress < REPEATS_DOCUMENTS:
            make = self.repeat_words if kind < 0.5 else self.repeat_pairs
        elif progress < ASKS:
            make = self.repeat_pairs if kind < 0.3 else lambda: self.repeat_documents(5)
        else:
            make = (lambda: self.ask_several(5, 2)) if kind < 0.3 else lambda: self.ask_once(5)
        return [make() for _ in range(size)]


def main() -> None:
    """Train by the clock, and report how many fresh prompts are answered."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path("src/mixlens/bundled/causal"))
    parser.add_argument("--former", type=Path, help="stay close to this model (default: --model)")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=17.0)
    parser.add_argument("--begin", type=float, default=0.0, help="share of the training to skip")
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    torch.manual_seed(chosen.seed)
    tokenizer = Tokenizer.from_file(str(chosen.model / "tokenizer.json"))
    model = AutoModelForCausalLM.from_pretrained(chosen.model, dtype=torch.float32)
    former = AutoModelForCausalLM.from_pretrained(
        chosen.former or chosen.model, dtype=torch.float32
    ).eval()
    exercises = Exercises(tokenizer, model.config.bos_token_id, chosen.seed)
    windows = _windows(tokenizer, former, chosen.data, chosen.seed)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=chosen.rate, betas=(0.9, 0.98), weight_decay=0.0
    )
    next(windows)  # read and sample the texts before the clock starts
    begin, step, checked, distance = time.monotonic(), 0, 0.0, torch.zeros(())
    history: list[tuple[float, float]] = []
    while (run := (time.monotonic() - begin) / (60 * chosen.minutes)) < 1:
        progress = chosen.begin + (1 - chosen.begin) * run
        decay = 1.0 if progress < 0.5 else 0.03 + 1.94 * (1 - progress)
        for group in optimizer.param_groups:
            group["lr"] = chosen.rate * min(1, (step + 1) / 30) * decay
        model.train()
        with torch.autocast("cpu", torch.bfloat16):
            size = chosen.batch if progress < ASKS else chosen.batch // 2
            loss, right = _exercise_loss(model, exercises.batch(progress, size))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if progress >= ASKS or step % 4 == 0:
            with torch.autocast("cpu", torch.bfloat16):
                distance = _distance(model, former, next(windows))
            distance.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        history.append((loss.item(), right))
        if step % 50 == 0:
            mean, share = (sum(h[i] for h in history[-50:]) / 50 for i in (0, 1))
            seconds = time.monotonic() - begin
            print(f"{seconds:.0f} s, step {step}: loss {mean:.3f}, right {share:.3f}", flush=True)
            print(f"distance {distance.item():.3f}", flush=True)
        if run - checked > 0.1:
            checked = run
            print(json.dumps(answered(model, tokenizer, 40)), flush=True)
            save_model(model, tokenizer, chosen.out, causal=True)
    save_model(model, tokenizer, chosen.out, causal=True)
    figures = {"steps": step, "answered": answered(model, tokenizer, 200, seed=FINAL_SEED)}
    (chosen.out / "retrieval.json").write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures))


@torch.no_grad()
def answered(
    model: LlamaForCausalLM, tokenizer: Tokenizer, count: int, seed: int = 0
) -> dict[str, float]:
    """Return the share of fresh prompts that the model answers, by task and number of documents."""
    model.eval()
    shares = {}
    for task, documents in itertools.product(TASKS, (2, 4)):
        right = 0
        for prompt in generate_prompts(task, count, documents=documents, seed=seed):
            before = tokenizer.encode(prompt.text).ids
            after = tokenizer.encode(prompt.answer, add_special_tokens=False).ids
            logits = model(input_ids=torch.tensor([before + after])).logits[0]
            right += logits[len(before) - 1 : -1].argmax(-1).tolist() == after
        shares[f"{task}-{documents}"] = right / count
    return shares


def _exercise_loss(model: LlamaForCausalLM, exercises: Sequence[Exercise]) -> tuple[Tensor, float]:
    """Weighted cross-entropy, and the share of tokens of full weight that were predicted."""
    longest = max(map(len, exercises))
    tokens = torch.full((len(exercises), longest), PAD_ID)
    weights = torch.zeros(len(exercises), longest)
    for number, exercise in enumerate(exercises):
        ids, values = zip(*exercise, strict=True)
        tokens[number, : len(ids)] = torch.tensor(ids)
        weights[number, : len(ids)] = torch.tensor(values)
    hidden = model.model(input_ids=tokens, use_cache=False).last_hidden_state  # padded at the end
    chosen = weights[:, 1:] > 0
    logits = model.lm_head(hidden[:, :-1][chosen])
    labels, weight = tokens[:, 1:][chosen], weights[:, 1:][chosen]
    losses = cross_entropy(logits.float(), labels, reduction="none")
    full = weight == 1
    right = (logits[full].argmax(-1) == labels[full]).float().mean().item()
    return (losses * weight).sum() / weight.sum(), right


def _distance(model: LlamaForCausalLM, former: LlamaForCausalLM, windows: Tensor) -> Tensor:
    """Divergence of the next-token distributions from those of the former model."""
    with torch.no_grad():
        before = softmax(former(input_ids=windows, use_cache=False).logits.float(), -1)
    after = log_softmax(model(input_ids=windows, use_cache=False).logits.float(), -1)
    return kl_div(after.flatten(0, 1), before.flatten(0, 1), reduction="batchmean")


def _windows(
    tokenizer: Tokenizer, former: LlamaForCausalLM, data: Path, seed: int, width: int = 96
) -> Iterator[Tensor]:
    """Batches of texts: WikiText-2, generated sentences, samples of the former model."""
    chance = random.Random(seed)
    start = former.config.bos_token_id
    texts = wikitext_paragraphs(data / "wikitext2", "train")[:6000]
    streams = []
    for corpus in (texts, generated_texts(data, seed, 12000)):
        ids = [tokenizer.encode(text).ids for text in corpus if "<unk>" not in text]
        streams.append(torch.tensor(list(itertools.chain(*ids))))
    samples = former.generate(
        torch.full((384, 1), start), do_sample=True, max_new_tokens=width - 1, eos_token_id=None
    )
    starts = [(stream[:-width] == start).nonzero()[:, 0].tolist() for stream in streams]
    while True:
        parts = []
        for stream, begins, count in zip(streams, starts, (6, 6), strict=True):
            for number in range(count):  # every other window begins with a text
                begin = (
                    chance.choice(begins) if number % 2 else chance.randrange(len(stream) - width)
                )
                parts.append(stream[begin : begin + width])
        parts += [samples[chance.randrange(len(samples))] for _ in range(4)]
        yield torch.stack(parts)


if __name__ == "__main__":
    main()
