"""Time of each stage of one shard of `mixlens run`, on the device and on its host.

`python -m benchmarks.corpus_stages [--device cuda]` prints for every measure, in milliseconds:

* `read`: rows, tokens and batches; `write`: Parquet. On a GPU both are hidden behind other shards.
* `start`: handing all batches to the device. If the device is slower, it is hidden too.
* `wait`: from then on until all numbers are here.
* `device`: how long kernels ran in `start` and `wait`, on a GPU; below it the kernels that took
  longest.
* `forward`: the model's own passes over the same texts, by the clock and on the device.

`--host` prints what is left if the model is so narrow that it costs nothing: microseconds of the
processor for each text of a shard that is one batch, stage by stage. Python does one thing at a
time, so this is what a GPU waits for.
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
    DEVICES,
    SHARD,
    TEXTS,
    WRITES,
    forward_passes,
    job_for,
    lens_of,
    padded,
    texts_of,
)
from mixlens import Lens
from mixlens.datasets.rows import TextRecord, rows_of
from mixlens.datasets.shards import Shard, cut_into_shards
from mixlens.measuring.batching import plan_batches
from mixlens.runs.batch import BatchUnderway, start_measuring
from mixlens.runs.engines import reduce_latency
from mixlens.runs.job import Job
from mixlens.runs.shard import (
    ShardWorker,
    make_ready,
    read_texts,
    tokenise,
    write_results,
)

NARROW = {"hidden_size": 96, "intermediate_size": 96}  # eight channels for each head
Stages = dict[str, float]


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


def shard_of(folder: str, texts: Sequence[str]) -> tuple[Path, Shard]:
    """A corpus of one shard."""
    path = Path(folder, "corpus.txt")
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    (shard,) = cut_into_shards(str(path), len(texts))
    Path(folder, "data").mkdir(exist_ok=True)
    return path, shard


def stages(lens: Lens, texts: list[str], measures: list[str], kernels: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, shard = shard_of(folder, texts)

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


class Timed:
    """The least seconds of the processor that each stage took."""

    def __init__(self) -> None:
        self.seconds: Stages = {}

    def __call__(self, stage: str, run: Callable[[], Any]) -> Any:
        start = time.process_time()
        result = run()
        took = time.process_time() - start
        self.seconds[stage] = min(took, self.seconds.get(stage, took))
        return result


def host_stages(lens: Lens, job: Job, shard: Shard) -> Stages:
    """Seconds of the processor for one shard that is one batch."""
    timed, worker = Timed(), ShardWorker(lens, job)
    few = list(range(2))  # a batch takes as long to start if it is small
    for _ in range(3):
        read = timed("read rows", lambda: list(rows_of(shard, job.columns)))
        rows = [row for row in read if isinstance(row, TextRecord)]
        encodings = timed("tokenise", partial(tokenise, lens, [row.text for row in rows]))
        lengths = [len(encoding["input_ids"]) for encoding in encodings]
        timed("plan", partial(plan_batches, lengths, lens.model, logits=False))
        whole = list(range(len(rows)))
        timed("make ready", partial(make_ready, lens, rows, encodings, whole))
        ready = make_ready(lens, rows, encodings, few)
        timed("start a batch", partial(start_measuring, lens, job, rows, few, ready)).conclude()
        texts = read_texts(lens, job, shard)
        underway = [start_measuring(lens, job, rows, *batch) for batch in texts.batches]
        timed("conclude", partial(conclude, underway))
        if WRITES:
            done = worker.measure(texts)
            timed("write", partial(write_results, job, shard, texts, done))
    return timed.seconds


def host(lens: Lens, texts: list[str], measures: list[str]) -> None:
    timed, columns = Timed(), {}
    with tempfile.TemporaryDirectory() as folder:
        path, shard = shard_of(folder, texts)
        for _ in range(3):
            encoded = timed("tokenise", partial(lens.tokenizer, texts))
            every = range(len(texts))
            inputs = timed("make ready", partial(padded, lens, encoded, every))
            few = {name: values[:2].to(lens.model.device) for name, values in inputs.items()}
            with torch.no_grad():
                timed("start a batch", partial(lens.model, **few))
        columns["forward"] = timed.seconds
        for measure in measures:
            columns[measure] = host_stages(lens, job_for(measure, path, folder), shard)
    names = list(dict.fromkeys(stage for column in columns.values() for stage in column))
    print(f"  {'':15}" + "".join(f"{name:>16}" for name in columns))
    for stage in names:
        spent = [1e6 * column.get(stage, 0.0) / len(texts) for column in columns.values()]
        print(f"  {stage:15}" + "".join(f"{number:16.1f}" for number in spent))
    whole = [1e6 * sum(column.values()) / len(texts) for column in columns.values()]
    print(f"  {'all':15}" + "".join(f"{number:16.1f}" for number in whole), flush=True)


def main(given_options: Sequence[str] | None = None) -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--device", default="cpu", choices=DEVICES)
    options.add_argument("--kind", choices=tuple(SHARD), help="of texts, by default both")
    options.add_argument("--texts", type=int, help="of a shard, by default as on a GPU")
    options.add_argument("--measure", action="append", choices=tuple(BARS))
    options.add_argument("--kernels", type=int, default=6, help="how many of the longest to show")
    options.add_argument("--host", action="store_true", help="a narrow model: the host's work")
    given = options.parse_args(given_options)
    torch.set_num_threads(1)
    measures = given.measure or list(BARS)
    for kind, rows in SHARD.items():
        if given.kind not in (None, kind):
            continue
        texts = texts_of(kind, given.texts or rows)
        for name in ["narrow"] if given.host else TEXTS[given.device]:
            lens = lens_of(name, given.device, **(NARROW if given.host else {}))
            print(f"{name}, {len(texts)} texts", flush=True)
            with reduce_latency():
                if given.host:
                    host(lens, texts, measures)
                else:
                    stages(lens, texts, measures, given.kernels)


if __name__ == "__main__":
    main()
