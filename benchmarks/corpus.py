"""`mixlens run` beside the model's own batched forward passes over the same texts.

`python -m benchmarks.corpus [--device cuda] [--texts N]` prints, for the bundled model and a model
of BERT's base shape, what one worker takes for a shard (reading, batching, measuring, summaries,
aggregates and Parquet included) as a multiple of eager forward passes over the same batches. On a
CPU it counts processor seconds of one thread, so that a busy machine does not matter much. The last
column is the gain over a loop of single calls.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.models import bert
from mixlens import Lens, corpus
from mixlens.batching import plan_batches, token_counts
from mixlens.corpus.shards import cut_into_shards
from mixlens.runs.job import Job
from mixlens.runs.shard import ShardWorker

MEASURES = {
    "attention": "all",
    "attention_norm": "all",
    "alti": "all",
    "value_zeroing": "last",
}
SINGLE = 40  # texts of the loop of single calls


def seconds(run: Callable[[], Any], device: str, repeats: int = 3) -> float:
    """The best of a few runs after one to warm up: of the processor, or of the clock on a GPU."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    best = float("inf")
    for number in range(repeats + 1):
        start = clock()
        run()
        if device != "cpu":
            torch.cuda.synchronize()
        if number:
            best = min(best, clock() - start)
    return best


def lenses(device: str) -> dict[str, Lens]:
    bundled = Lens.bundled(attn_implementation="eager")
    words = bundled.tokenizer
    shape = bert("BertForMaskedLM", vocab_size=len(words), device=device)
    bundled.model.to(torch.device(device))
    return {"bundled": bundled, "BERT-base shape": Lens(shape, words)}


def forward_passes(lens: Lens, texts: list[str]) -> None:
    lengths = token_counts(lens.tokenizer, texts)
    with torch.no_grad():
        for batch in plan_batches(lengths, lens.model):
            inputs = lens.tokenizer([texts[i] for i in batch], padding=True, return_tensors="pt")
            lens.model(**inputs.to(lens.model.device))


def compare(name: str, lens: Lens, texts: list[str], device: str) -> None:
    tokens = sum(token_counts(lens.tokenizer, texts))
    plain = seconds(partial(forward_passes, lens, texts), device)
    print(f"{name}: {len(texts)} texts, {tokens} tokens, {tokens / plain:,.0f} tokens/s forward")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "corpus.txt")
        path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        (shard,) = cut_into_shards(str(path), len(texts))
        Path(folder, "data").mkdir()
        for measure, targets in MEASURES.items():
            job = Job(corpus=str(path), out=folder, measures=(measure,), targets=targets)
            spent = seconds(partial(ShardWorker(lens, job), shard), device)
            chosen, few = None if targets == "all" else [-1], texts[:SINGLE]
            single = seconds(partial(one_by_one, lens, measure, few, chosen), device, 1)
            gain = single / len(few) / (spent / len(texts))
            print(
                f"  {measure:15} {targets:5} {spent / plain:5.2f} x forward"
                f" {tokens / spent:9,.0f} tokens/s  {gain:4.1f} x single calls",
                flush=True,
            )


def one_by_one(lens: Lens, measure: str, texts: list[str], targets: list[int] | None) -> None:
    for text in texts:
        lens.measure(measure, text, targets=targets)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--device", default="cpu")
    options.add_argument("--texts", type=int, default=256)
    given = options.parse_args()
    torch.set_num_threads(1)
    examples = corpus.bundled().examples
    texts = [examples[i % len(examples)].text for i in range(given.texts)]
    for name, lens in lenses(given.device).items():
        compare(name, lens, texts, given.device)


if __name__ == "__main__":
    main()
