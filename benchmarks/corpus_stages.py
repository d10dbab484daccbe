"""Where the time of `mixlens run` goes: the stages of one shard, and what the device does.

`python -m benchmarks.corpus_stages [--device cuda]` prints for every measure, in milliseconds:

* `read`: rows, tokens and batches; `write`: Parquet. On a GPU both are hidden behind other shards.
* `start`: handing all batches to the device. If the device is slower, it is hidden too.
* `wait`: from then on until all numbers are here.
* `device`: how long kernels ran in `start` and `wait`, on a GPU; below it the kernels that took
  longest.
* `forward`: the model's own passes over the same texts, by the clock and on the device.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.corpus import (
    BARS,
    WRITES,
    forward_passes,
    job_for,
    lenses,
    paragraphs,
    sentences,
)
from mixlens import Lens
from mixlens.corpus.shards import cut_into_shards
from mixlens.runs.batch import BatchUnderway, start_measuring
from mixlens.runs.engines import undisturbed
from mixlens.runs.shard import ShardWorker, read_texts, write_results


def milliseconds(run: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = run()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start), result


def on_device(run: Callable[[], Any]) -> tuple[float, list[tuple[str, float, int]]]:
    """Milliseconds of all kernels, and the longest by name."""
    if not torch.cuda.is_available():
        return 0.0, []
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        run()
        torch.cuda.synchronize()
    kernels = [(e.key, e.self_device_time_total / 1e3, e.count) for e in seen.key_averages()]
    kernels.sort(key=lambda kernel: -kernel[1])
    return sum(spent for _, spent, _ in kernels), kernels


def conclude(underway: Sequence[BatchUnderway]) -> None:
    for batch in underway:
        batch.conclude()


def stages(lens: Lens, texts: list[str], measures: list[str], kernels: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "corpus.txt")
        path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        (shard,) = cut_into_shards(str(path), len(texts))
        Path(folder, "data").mkdir()

        def forward() -> None:
            forward_passes(lens, [texts])

        forward()
        spent, _ = milliseconds(forward)
        device, _ = on_device(forward)
        print(f"  {'forward':15} {spent:7.0f}, of which the device {device:.0f}", flush=True)
        for measure in measures:
            worker = ShardWorker(lens, job_for(measure, path, folder))
            job = worker.job
            for _ in range(2):  # the first to warm up
                read, texts_read = milliseconds(partial(read_texts, lens, job, shard))
                begin = time.perf_counter()
                underway = [
                    start_measuring(lens, job, texts_read.rows, batch, ready)
                    for batch, ready in texts_read.batches
                ]
                start = 1e3 * (time.perf_counter() - begin)
                wait, _ = milliseconds(partial(conclude, underway))
                done = worker.measure(texts_read)
                write = 0.0
                if WRITES:
                    write, _ = milliseconds(partial(write_results, job, shard, texts_read, done))
            device, longest = on_device(partial(worker.measure, texts_read))
            print(
                f"  {measure:15} read {read:.0f}, start {start:.0f}, wait {wait:.0f},"
                f" write {write:.0f}, device {device:.0f} in {sum(n for *_, n in longest)} kernels,"
                f" {len(underway)} batches",
                flush=True,
            )
            for name, took, count in longest[:kernels]:
                print(f"    {took:7.1f} {count:6} x {name[:90]}", flush=True)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    options.add_argument("--texts", type=int, default=2048, help="sentences of a shard")
    options.add_argument("--measure", action="append", choices=tuple(BARS))
    options.add_argument("--kernels", type=int, default=6, help="how many of the longest to show")
    given = options.parse_args()
    torch.set_num_threads(1)
    for name, lens in lenses(given.device).items():
        for texts in (sentences(given.texts), paragraphs(max(1, given.texts // 16))):
            print(f"{name}, {len(texts)} texts", flush=True)
            with undisturbed():
                stages(lens, texts, given.measure or list(BARS), given.kernels)


if __name__ == "__main__":
    main()
