"""Teach the causal model to answer from documents: the number of a key, and facts.

    python -m training.teach_retrieval --data DATA --out build/causal --device cuda

The defaults are the options with which the shipped model was made.

Every step reads exercises (`exercises.py`), and windows of WikiText-2, of generated sentences and
of samples of the model that training starts from. On the windows the model must stay close to its
former self (Kullback-Leibler divergence, `--keep`) and predict the next token (`--plain`), so that
its grammar does not change. Other processes make the exercises meanwhile.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
from collections.abc import Sequence
from concurrent.futures import Executor, Future
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, log_softmax
from transformers import LlamaForCausalLM

from mixlens.datasets.generated_prompts import generate_prompts

from .corpora import wikitext_paragraphs
from .evaluate import CausalReader, blimp_accuracies, evaluate_causal
from .exercises import TASKS, WIDTH, make_chunk
from .graphs import graphed, optimizer_for, set_rate
from .rows import causal_stream, gather, generated_texts, in_chunks, make_pool
from .saving import save_model

FINAL_SEED = 7  # of the final figures; checks during the training use seed 0
WARM_UP = 200  # steps


class ExerciseBank:
    """Exercises on the device; processes replace the oldest while training draws from all."""

    def __init__(self, pool: Executor, tokenizer_file: str, options: argparse.Namespace):
        self.pool, self.file, self.chosen = pool, tokenizer_file, options
        self.chunk = min(1024, 4 * options.batch)
        self.slots = 8 * options.processes
        shape = (self.slots * self.chunk, WIDTH)
        self.tokens = torch.zeros(shape, dtype=torch.int16, device=options.device)
        self.weights = torch.zeros(shape, dtype=torch.float16, device=options.device)
        self.seeds, self.made = itertools.count(10**5 * options.seed), 0
        self.jobs: list[Future[tuple[np.ndarray, np.ndarray]]] = []
        while self.made < self.slots:
            self.refill(0.0, wait=True)

    def refill(self, progress: float, *, wait: bool = False) -> None:
        """Store finished chunks, and order as many new ones."""
        while len(self.jobs) < 2 * self.chosen.processes:
            self.jobs.append(
                self.pool.submit(
                    make_chunk,
                    self.file,
                    next(self.seeds),
                    progress,
                    self.chunk,
                    self.chosen.tasks,
                )
            )
        while self.jobs and (wait or self.jobs[0].done()):
            wait = False
            tokens, weights = self.jobs.pop(0).result()
            begin = self.made % self.slots * self.chunk
            self.tokens[begin : begin + self.chunk] = torch.from_numpy(tokens)
            self.weights[begin : begin + self.chunk] = torch.from_numpy(weights)
            self.made += 1


class Windows:
    """Windows of several streams; every other one begins with the start of a text."""

    def __init__(self, streams: Sequence[Tensor], counts: Sequence[int], width: int, start: int):
        self.streams, self.counts, self.width = streams, counts, width
        self.starts = [(stream[:-width] == start).nonzero()[:, 0] for stream in streams]

    def draw(self) -> Tensor:
        """Token ids of random windows."""
        parts = []
        for stream, starts, count in zip(self.streams, self.starts, self.counts, strict=True):
            device, half = stream.device, count // 2
            begin = torch.cat(
                [
                    starts[torch.randint(0, len(starts), (half,), device=device)],
                    torch.randint(0, len(stream) - self.width, (count - half,), device=device),
                ]
            )
            parts.append(stream[begin[:, None] + torch.arange(self.width, device=device)])
        return torch.cat(parts).long()


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", type=Path, default=Path("build/models/causal"), help="to start from"
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with wikitext2 and blimp")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cpu", help="cuda or cpu")
    parser.add_argument("--processes", type=int, default=3, help="that make exercises")
    parser.add_argument("--minutes", type=float, default=2.6, help="of training alone")
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--keep", type=float, default=3.0, help="weight of the divergence")
    parser.add_argument("--plain", type=float, default=0.7, help="weight of the next-token loss")
    parser.add_argument("--batch", type=int, default=256, help="exercises in a step")
    parser.add_argument(
        "--mix",
        type=int,
        nargs=3,
        default=(40, 32, 24),
        metavar=("WIKITEXT", "GENERATED", "SAMPLES"),
        help="windows in a step",
    )
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--generated", type=int, default=150_000, help="sentences of the grammar")
    parser.add_argument("--samples", type=int, default=2048, help="windows of the former model")
    parser.add_argument("--prompts", type=int, default=200, help="of each final share")
    parser.add_argument("--check", type=float, default=40.0, help="seconds between two checks")
    parser.add_argument("--seed", type=int, default=2)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train by the clock, and report answers and what is left of the grammar."""
    options = parse(arguments)
    torch.manual_seed(options.seed)
    tokenizer_file = str(options.model / "tokenizer.json")
    tokenizer = Tokenizer.from_file(tokenizer_file)
    model, former = (
        LlamaForCausalLM.from_pretrained(options.model, dtype=torch.float32).to(options.device)
        for _ in range(2)
    )
    with make_pool(options.processes) as pool:
        windows = _windows(pool, tokenizer_file, former, options)
        bank = ExerciseBank(pool, tokenizer_file, options)
        steps = _train(model.train(), former, tokenizer, windows, bank, options)
        for job in bank.jobs:
            job.cancel()
    save_model(model, tokenizer, options.out, causal=True)
    figures = {
        "options": {name: str(value) for name, value in vars(options).items()},
        "steps": steps,
        "answered": answered(
            CausalReader(options.out, options.device), options.prompts, FINAL_SEED
        ),
        **evaluate_causal(options.out, options.data, options.device),
    }
    (options.out / "retrieval.json").write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures, indent=2), flush=True)


def _train(
    model: LlamaForCausalLM,
    former: LlamaForCausalLM,
    tokenizer: Tokenizer,
    windows: Windows,
    bank: ExerciseBank,
    options: argparse.Namespace,
) -> int:
    """Take steps until the time is up; return their number."""
    optimizer = optimizer_for(model, options.rate, (0.9, 0.98), 0.0, options.device)

    def step_once() -> tuple[Tensor, ...]:
        places = torch.randint(0, len(bank.tokens), (options.batch,), device=options.device)
        optimizer.zero_grad(set_to_none=True)
        loss, right = _exercise_loss(
            _logits(model, tokens := bank.tokens[places].long()),
            tokens,
            bank.weights[places].float(),
        )
        loss.backward()
        ids = windows.draw()
        with torch.no_grad():
            before = log_softmax(_logits(former, ids), -1).flatten(0, 1)
        logits = _logits(model, ids)
        after = log_softmax(logits, -1).flatten(0, 1)
        distance = kl_div(after, before, reduction="batchmean", log_target=True)
        plain = cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        (options.keep * distance + options.plain * plain).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach(), right, distance.detach(), plain.detach()

    run_step = graphed(step_once, optimizer, options.device)
    begin, step, reported, checked = time.monotonic(), 0, 0.0, 0.0
    while (seconds := time.monotonic() - begin) < 60 * options.minutes:
        progress = seconds / (60 * options.minutes)
        bank.refill(progress)
        decay = 1.0 if progress < 0.4 else 0.5 + 0.5 * math.cos(math.pi * (progress - 0.4) / 0.6)
        set_rate(optimizer, options.rate * min(1, (step + 1) / WARM_UP) * decay)
        values = run_step()
        step += 1
        if step % 20 == 0 and options.device == "cuda":
            torch.cuda.synchronize()
        if seconds - reported >= 10:
            reported = seconds
            loss, right, distance, plain = (value.item() for value in values)
            print(
                f"{options.out.name} {seconds:.0f} s, step {step}, {bank.made} chunks: loss"
                f" {loss:.3f}, right {right:.3f}, divergence {distance:.3f}, plain {plain:.3f}",
                flush=True,
            )
        if seconds - checked >= options.check:
            checked = seconds
            save_model(model, tokenizer, options.out, causal=True)
            reader = CausalReader(options.out, options.device)
            blimp = blimp_accuracies(reader, options.data, 200)
            mean = sum(figure["accuracy"] for figure in blimp.values()) / max(1, len(blimp))
            shares = json.dumps(answered(reader, min(50, options.prompts)))
            print(f"{options.out.name} {seconds:.0f} s: BLiMP {mean:.3f}, {shares}", flush=True)
    return step


@torch.inference_mode()
def answered(reader: CausalReader, count: int, seed: int = 0) -> dict[str, float]:
    """Return the share of fresh prompts that the model answers, by task and number of documents."""
    shares = {}
    for task, documents in itertools.product(TASKS, (2, 4, 8)):
        right = 0
        every = generate_prompts(task, count, documents=documents, seed=seed)
        for prompts in (every[start : start + 50] for start in range(0, count, 50)):
            before = [reader.tokenizer(prompt.text)["input_ids"] for prompt in prompts]
            after = [
                reader.tokenizer(prompt.answer, add_special_tokens=False)["input_ids"]
                for prompt in prompts
            ]
            whole = [first + then for first, then in zip(before, after, strict=True)]
            padded = reader.tokenizer.pad(
                {"input_ids": whole}, padding_side="right", return_tensors="pt"
            )
            guesses = reader.model(padded["input_ids"].to(reader.device)).logits.argmax(-1).tolist()
            right += sum(
                guess[len(first) - 1 : len(first) - 1 + len(then)] == then
                for guess, first, then in zip(guesses, before, after, strict=True)
            )
        shares[f"{task}-{documents}"] = right / count
    return shares


def _logits(model: LlamaForCausalLM, ids: Tensor) -> Tensor:
    """Logits in float32, computed in bfloat16; what follows padding is of no use."""
    width = ids.shape[1]
    earlier = torch.ones(width, width, dtype=torch.bool, device=ids.device).tril()
    with torch.autocast(ids.device.type, torch.bfloat16, cache_enabled=False):
        logits: Tensor = model(
            input_ids=ids,
            attention_mask=earlier[None, None].expand(len(ids), -1, -1, -1),
            use_cache=False,
        ).logits
    return logits.float()


def _exercise_loss(logits: Tensor, tokens: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Weighted cross-entropy, and the share of tokens of full weight that were predicted."""
    logits, labels, weight = logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten(), weights[:, 1:]
    weight = weight.flatten()
    losses = cross_entropy(logits, labels, reduction="none")
    full = (weight == 1).float()
    right = ((logits.detach().argmax(-1) == labels) * full).sum() / full.sum()
    return (losses * weight).sum() / weight.sum(), right


def _windows(
    pool: Executor, tokenizer_file: str, former: LlamaForCausalLM, options: argparse.Namespace
) -> Windows:
    """Windows of WikiText-2, of generated sentences and of samples of the former model."""
    width, start = former.config.max_position_embeddings, former.config.bos_token_id
    each = max(1, options.generated // (4 * options.processes))
    jobs = [
        pool.submit(generated_texts, options.data, 1000 * (options.seed + 1) + number, each)
        for number in range(4 * options.processes)
    ]
    samples = former.generate(
        torch.full((options.samples, 1), start, device=options.device),
        do_sample=True,
        top_k=0,
        max_new_tokens=width - 1,
        eos_token_id=None,
    )
    streams = [
        gather(
            pool,
            causal_stream,
            [(tokenizer_file, options.data, part, start) for part in in_chunks(texts, 500)],
        ).stream
        for texts in (
            wikitext_paragraphs(options.data / "wikitext2", "train"),
            [text for job in jobs for text in job.result()],
        )
    ]
    print(f"windows from {[len(stream) for stream in streams]} tokens", flush=True)
    on_device = [torch.from_numpy(stream).to(options.device) for stream in streams]
    return Windows([*on_device, samples.flatten().to(torch.int16)], options.mix, width, start)


if __name__ == "__main__":
    main()
