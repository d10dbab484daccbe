"""Teach the causal model to answer from documents: one fact, a key's number, and two hops.

    python -m training.teach_retrieval --data DATA --out build/causal --minutes 60

Half of every step are generated prompts (`mixlens.datasets.generated_prompts`, seeds of their own),
half are windows of WikiText-2 and of generated sentences, on which the model must stay close to the
one it started from (Kullback-Leibler divergence), so that its grammar does not change.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import math
import random
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, log_softmax, softmax
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from mixlens.datasets.generated_prompts import generate_prompts

from .corpora import wikitext_paragraphs
from .rows import generated_texts

TRAINING_SEED = 1_000_000  # evaluations count their seeds from 0
MOST_DOCUMENTS = {"fact": 10, "key_value": 10, "two_hop": 8}


def main() -> None:
    """Train by the clock, and report how many fresh prompts are answered."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path("src/mixlens/bundled/causal"))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--prompts", type=int, default=24)
    parser.add_argument("--windows", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    torch.manual_seed(chosen.seed)
    tokenizer = AutoTokenizer.from_pretrained(chosen.model)
    model = AutoModelForCausalLM.from_pretrained(chosen.model, dtype=torch.float32)
    former = copy.deepcopy(model).eval()
    prompts = _prompts(tokenizer, chosen.seed)
    windows = _windows(tokenizer, chosen.data, chosen.seed)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=chosen.rate, betas=(0.9, 0.95), weight_decay=0.05
    )
    begin, step = time.monotonic(), 0
    while (progress := (time.monotonic() - begin) / (60 * chosen.minutes)) < 1:
        rate = chosen.rate * min(1, (step + 1) / 50) * (0.5 + 0.5 * math.cos(math.pi * progress))
        for group in optimizer.param_groups:
            group["lr"] = rate
        model.train()
        loss = _answer_loss(model, [next(prompts) for _ in range(chosen.prompts)])
        kept = torch.stack([next(windows) for _ in range(chosen.windows)])
        distance = _distance(model, former, kept)
        optimizer.zero_grad(set_to_none=True)
        (loss + distance).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step % 100 == 0:
            print(f"step {step}: {loss.item():.3f}, distance {distance.item():.3f}", flush=True)
        if step % 500 == 0:
            print(json.dumps(answered(model, tokenizer, 40)), flush=True)
            _save(model, tokenizer, chosen.out)
    _save(model, tokenizer, chosen.out)
    figures = {"steps": step, "answered": answered(model, tokenizer, 200)}
    (chosen.out / "retrieval.json").write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures))


def answered(model: PreTrainedModel, tokenizer: object, count: int) -> dict[str, float]:
    """Return the share of fresh prompts that the model answers, by task and number of documents."""
    model.eval()
    shares = {}
    for task, documents in itertools.product(MOST_DOCUMENTS, (2, 4, 8)):
        right = 0
        for prompt in generate_prompts(task, count, documents=documents):
            ids, first = _encoded(tokenizer, prompt.text, prompt.answer)
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([ids])).logits[0]
            right += logits[first - 1 : -1].argmax(-1).tolist() == ids[first:]
        shares[f"{task}-{documents}"] = right / count
    return shares


def _encoded(tokenizer: object, text: str, answer: str) -> tuple[list[int], int]:
    """Token ids of prompt and answer, and where the answer begins."""
    before = tokenizer(text).input_ids  # type: ignore[operator]
    return before + tokenizer(answer, add_special_tokens=False).input_ids, len(before)  # type: ignore[operator]


def _prompts(tokenizer: object, seed: int) -> Iterator[tuple[list[int], int]]:
    chance = random.Random(seed)
    for number in itertools.count():
        task = chance.choice(list(MOST_DOCUMENTS))
        documents = chance.randint(2, MOST_DOCUMENTS[task])
        made = generate_prompts(
            task, 1, documents=documents, seed=TRAINING_SEED + number + 10**8 * seed
        )[0]
        ids, first = _encoded(tokenizer, made.text, made.answer)
        yield ids + tokenizer(".\n", add_special_tokens=False).input_ids, first  # type: ignore[operator]


def _windows(tokenizer: object, data: Path, seed: int) -> Iterator[Tensor]:
    texts = wikitext_paragraphs(data / "wikitext2", "train")[:3000]
    texts += generated_texts(None, seed, 6000)
    ids = [tokenizer(text).input_ids for text in texts]  # type: ignore[operator]
    stream = torch.tensor(list(itertools.chain(*ids)))
    chance = random.Random(seed)
    while True:
        begin = chance.randrange(len(stream) - 256)
        yield stream[begin : begin + 256]


def _answer_loss(model: PreTrainedModel, prompts: list[tuple[list[int], int]]) -> Tensor:
    """Cross-entropy of the answers, and a tenth of that of the documents."""
    longest = max(len(ids) for ids, _ in prompts)
    tokens = torch.zeros(len(prompts), longest, dtype=torch.long)
    mask, weights = torch.zeros_like(tokens), torch.zeros(len(prompts), longest)
    for row, (ids, first) in enumerate(prompts):
        tokens[row, : len(ids)] = torch.tensor(ids)
        mask[row, : len(ids)] = 1
        weights[row, 1 : len(ids)] = 0.1
        weights[row, first : len(ids)] = 1.0
    logits = model(input_ids=tokens, attention_mask=mask, use_cache=False).logits
    losses = cross_entropy(
        logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten(), reduction="none"
    ).view(len(prompts), -1)
    return (losses * weights[:, 1:]).sum() / weights.sum()


def _distance(model: PreTrainedModel, former: PreTrainedModel, windows: Tensor) -> Tensor:
    """Divergence of the next-token distributions from those of the former model."""
    with torch.no_grad():
        before = softmax(former(input_ids=windows, use_cache=False).logits, -1)
    after = log_softmax(model(input_ids=windows, use_cache=False).logits, -1)
    return kl_div(after.flatten(0, 1), before.flatten(0, 1), reduction="batchmean")


def _save(model: PreTrainedModel, tokenizer: object, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    copy.deepcopy(model).to(torch.float16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
