"""`mixlens run` next to the model's own batched forward passes over the same texts.

`python -m benchmarks.corpus [--device cuda]` prints what one worker takes for a corpus (reading,
batching, measuring, summaries, aggregates and Parquet included) as a multiple of eager forward
passes over the same batches, each text tokenised once. The last column is the gain over a loop of
single calls. On a CPU it counts processor seconds of one thread, so that a busy machine does not
matter much. On a GPU it counts seconds, as a long run has them: without the first and last shards,
which are read and written while the device has nothing to do. The multiple with them is printed
too. `--scaling ray` compares two workers with one, and with what two processes of plain forward
passes reach. Results go into benchmarks/results, from which `--table` makes the table of
docs/development/corpus_speed.md.

Without pyarrow no file is written, which is said. Nothing else here needs an extra.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.models import bert
from mixlens import Lens
from mixlens import datasets as corpus
from mixlens.datasets.shards import Shard, cut_into_shards
from mixlens.measuring.batching import plan_batches, token_counts
from mixlens.runs.corpus_run import run_corpus
from mixlens.runs.engines import Engine, do_tasks
from mixlens.runs.job import SHARD_ROWS_ELSEWHERE, Job, ModelSource
from mixlens.runs.shard import AT_ONCE, ShardWorker

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "development" / "corpus_speed.md"
BEGIN, END = "<!-- table of benchmarks.corpus -->\n", "<!-- end of table -->"
BARS = {"attention": 1.25, "attention_norm": 1.6, "alti": 2.5, "value_zeroing": 3.0}
TARGETS = {"value_zeroing": "last"}
FORWARD = "forward passes"
WORDS = 30_522  # of BERT's vocabulary: a head is part of the shape
DEVICES = ("cpu", "cuda")
PARAGRAPH = 32  # sentences
SHARD = {"sentences": SHARD_ROWS_ELSEWHERE, "paragraphs": SHARD_ROWS_ELSEWHERE // 16}
TEXTS = {  # by device, model and kind
    "cpu": {
        "bundled": {"sentences": 256, "paragraphs": 16},
        "BERT-base shape": {"sentences": 128},
    },
    "cuda": {"BERT-base shape": {kind: 32 * rows for kind, rows in SHARD.items()}},
}
WRITES = importlib.util.find_spec("pyarrow") is not None


class Unwritten(ShardWorker):
    """The same work without a file, for machines that have no pyarrow."""

    def __call__(self, shard: Shard) -> dict[str, Any]:
        self.measure(self.read(shard))
        return {}


def seconds(
    runs: Mapping[str, Callable[[Sequence[Any]], float | None]],
    shards: Sequence[Any],
    device: str,
    repeats: int = 3,
) -> dict[str, tuple[float, float]]:
    """The best of a few runs over all shards, after one shard to warm up: seconds of the processor,
    or of the clock on a GPU. First as a long run has them, if the run knows that, then all.

    They take turns, so that a busy machine disturbs all of them alike.
    """
    clock = time.process_time if device == "cpu" else time.perf_counter
    best = dict.fromkeys(runs, (float("inf"),) * 2)
    for given in (shards[:1], *[shards] * repeats):
        for name, run in runs.items():
            start = clock()
            steady = run(given)
            if device != "cpu":
                torch.cuda.synchronize()
            spent = clock() - start
            if given is shards:
                best[name] = min(best[name], (steady or spent, spent))
    return best


def lens_of(name: str, device: str, **config: Any) -> Lens:
    """The bundled model, or a shape with its tokenizer."""
    bundled = _bundled()
    if name == "bundled":
        return bundled
    with warnings.catch_warnings():  # the shape has more words than the tokenizer
        warnings.simplefilter("ignore")
        shape = bert("BertForMaskedLM", vocab_size=WORDS, device=device, **config)
        return Lens(shape, bundled.tokenizer)


def texts_of(kind: str, count: int) -> list[str]:
    return sentences(count) if kind == "sentences" else paragraphs(count)


def sentences(count: int) -> list[str]:
    """Of nine tokens."""
    examples = corpus.bundled().examples
    return [examples[i % len(examples)].text for i in range(count)]


def paragraphs(count: int) -> list[str]:
    """Of about 230 tokens."""
    parts = sentences(count * PARAGRAPH)
    return [" ".join(parts[i::count]) for i in range(count)]


def forward_passes(lens: Lens, shards: Sequence[list[str]], memory: int | None = None) -> None:
    with torch.no_grad():
        for texts in shards:
            encoded = lens.tokenizer(texts)
            lengths = [len(ids) for ids in encoded["input_ids"]]
            for batch in plan_batches(lengths, lens.model, memory=memory, logits=False):
                lens.model(**padded(lens, encoded, batch).to(lens.model.device))


def padded(lens: Lens, encoded: Mapping[str, Sequence[Any]], batch: Sequence[int]) -> Any:
    """Some of the texts as tensors."""
    given = {name: [values[i] for i in batch] for name, values in encoded.items()}
    return lens.tokenizer.pad(given, return_tensors="pt")


def forward_passes_over(
    lens: Lens, texts: list[str], rows: int, memory: int | None, shards: Sequence[Shard]
) -> None:
    """The texts of these shards."""
    starts = [shard.number * rows for shard in shards]
    forward_passes(lens, [texts[start : start + rows] for start in starts], memory)


def measured(lens: Lens, job: Job, device: str, shards: Sequence[Shard]) -> float | None:
    """As an engine would have it. On a GPU what all shards would take at the rate of those in the
    middle of a run.
    """
    engine = Engine(device=device, at_once=1 if device == "cpu" else AT_ONCE)
    worker = (ShardWorker if WRITES else Unwritten)(lens, job)
    ended = [time.perf_counter() for _ in do_tasks(engine, lambda: worker, shards)]
    middle = ended[AT_ONCE - 1 : 1 - AT_ONCE]
    if engine.at_once == 1 or len(middle) < 2:
        return None
    return (middle[-1] - middle[0]) / (len(middle) - 1) * len(shards)


def compare(
    name: str, lens: Lens, kind: str, count: int, device: str, turns: int, memory: int | None
) -> Iterator[dict[str, Any]]:
    """Every measure on one model and one kind of text."""
    texts, rows = texts_of(kind, count), SHARD[kind]
    tokens = sum(token_counts(lens.tokenizer, texts))
    each = tokens / len(texts)
    few = texts[: 40 if kind == "sentences" and device == "cpu" else 8]
    print(f"{name}, {len(texts)} texts of {each:.0f} tokens", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "corpus.txt")
        path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        shards = cut_into_shards(str(path), rows)
        Path(folder, "data").mkdir()
        runs: dict[str, Callable[[Sequence[Shard]], float | None]] = {
            FORWARD: partial(forward_passes_over, lens, texts, rows, memory),
            **{m: partial(measured, lens, job_for(m, path, folder, memory), device) for m in BARS},
        }
        took = seconds(runs, shards, device, turns)
    for measure, bar in BARS.items():
        (spent, whole), (forward, _) = took[measure], took[FORWARD]
        alone = seconds({measure: partial(one_by_one, lens, measure)}, few, device, 1)
        result: dict[str, Any] = {
            "model": name,
            "device": device,
            "kind": kind,
            "texts": len(texts),
            "tokens_each": round(each),
            "memory": memory,
            "measure": measure,
            "targets": TARGETS.get(measure, "all"),
            "multiple": spent / forward,
            "multiple_with_start_and_end": whole / forward,
            "bar": bar,
            "tokens_per_second": tokens / spent,
            "forward_tokens_per_second": tokens / forward,
            "gain": alone[measure][0] / len(few) / (spent / len(texts)),
        }
        verdict = "ok" if result["multiple"] <= bar else "ABOVE"
        print(
            f"  {measure:15} {result['targets']:5} {result['multiple']:5.2f} x forward"
            f" (bar {bar:.2f}, with start and end {whole / forward:.2f}) {verdict:6}"
            f" {result['tokens_per_second']:11,.0f} tokens/s"
            f" {result['gain']:6.1f} x single calls",
            flush=True,
        )
        yield result


def job_for(measure: str, corpus: Path, out: str, memory: int | None = None) -> Job:
    targets = TARGETS.get(measure, "all")
    return Job(corpus=str(corpus), out=out, measures=(measure,), targets=targets, memory=memory)


def one_by_one(lens: Lens, measure: str, texts: Sequence[str]) -> None:
    targets = [-1] if measure in TARGETS else None
    for text in texts:
        lens.measure(measure, text, targets=targets)


def scaling(engine: str, shards: int = 12) -> dict[str, Any]:
    """Two workers against one, from the moment when all of them work."""
    rates, processor = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "corpus.txt")
        path.write_text("".join(f"{text}\n" for text in sentences(256 * shards)))
        for workers in (1, 2):
            events: list[tuple[float, dict[str, Any]]] = []
            job = Job(
                corpus=str(path),
                out=str(Path(folder, str(workers))),
                measures=("alti",),
                shard_rows=256,
            )
            run_corpus(
                job,
                ModelSource(threads=1),
                engine=engine,
                workers=workers,
                on_event=partial(_note, events),
            )
            ended = [(at, e) for at, e in events if e["event"] == "shard"]
            rates[workers] = (len(ended) - workers) / (ended[-1][0] - ended[workers - 1][0])
            spent = sorted(event["processor_seconds"] for _, event in ended[workers:])
            processor[workers] = spent[len(spent) // 2]
    speed, work, plain = rates[2] / rates[1], 2 * processor[1] / processor[2], two_processes()
    print(f"two {engine} workers: {speed:.2f} x one by the clock")
    print(f"  {work:.2f} x by the processor's seconds of a shard, which two free cores would give")
    print(f"  {plain:.2f} x is what two processes of plain forward passes reach on this machine")
    return {"engine": engine, "clock": speed, "processor": work, "plain": plain}


def two_processes() -> float:
    """How many forward passes two processes do in the time of one: what the machine allows."""
    rates = []
    for count in (1, 2):
        with multiprocessing.get_context("spawn").Pool(count) as pool:
            pool.map(passes_in, [1.0] * count, chunksize=1)  # loads the model
            rates.append(sum(pool.map(passes_in, [8.0] * count, chunksize=1)))
    return rates[1] / rates[0]


def passes_in(limit: float) -> int:
    """Batches that one thread takes through the bundled model in so many seconds."""
    torch.set_num_threads(1)
    lens, texts, done = _bundled(), sentences(32), 0
    end = time.perf_counter() + limit
    while time.perf_counter() < end:
        forward_passes(lens, [texts])
        done += 1
    return done


@cache
def _bundled() -> Lens:
    return Lens.bundled(attn_implementation="eager")


def _note(events: list[tuple[float, dict[str, Any]]], event: dict[str, Any]) -> None:
    events.append((time.perf_counter(), event))


def table() -> str:
    """The table of the documentation, from the stored results."""
    rows = [
        "| model, device, text | measure | passes | tokens a second | 10^6 tokens | 10^9 tokens |"
    ]
    rows.append("|---|---|---|---|---|---|")
    for device in DEVICES:
        path = RESULTS / f"corpus_{device}.json"
        for result in json.loads(path.read_text()) if path.exists() else ():
            rate = result["tokens_per_second"]
            of = " of one target" if result["targets"] != "all" else ""
            passes, whole = result["multiple"], result.get("multiple_with_start_and_end")
            both = f"{passes:.2f}" + (f" ({whole:.2f})" if whole not in (None, passes) else "")
            rows.append(
                f"| {result['model']}, {result['device']}, {result['tokens_each']} tokens"
                f" | `{result['measure']}`{of} | {both} | {rate:,.0f}"
                f" | {_duration(1e6 / rate)} | {_duration(1e9 / rate)} |"
            )
    return "\n".join(rows)


def _duration(spent: float) -> str:
    for unit, size in (("days", 86_400), ("h", 3600), ("min", 60)):
        if spent >= 2 * size:
            return f"{spent / size:.0f} {unit}"
    return f"{spent:.0f} s"


def keep(path: Path, result: Mapping[str, Any]) -> None:
    """Writes a result, in the place of an earlier one of the same kind."""
    known = json.loads(path.read_text()) if path.exists() else []
    by_kind = {tuple(one[key] for key in ("model", "kind", "measure")): one for one in known}
    by_kind[result["model"], result["kind"], result["measure"]] = result
    path.write_text(json.dumps(list(by_kind.values()), indent=1) + "\n")


def main(given_options: Sequence[str] | None = None) -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--device", default="cpu", choices=DEVICES)
    options.add_argument("--model", choices=tuple(TEXTS["cpu"]), help="by default both on a CPU")
    options.add_argument("--kind", choices=tuple(SHARD), help="of texts, by default both")
    options.add_argument("--texts", type=int, help="of one kind")
    options.add_argument("--memory", type=float, help="gigabytes of a batch, as in mixlens run")
    options.add_argument(
        "--out", type=Path, help="where the results go, by default benchmarks/results"
    )
    options.add_argument("--turns", type=int, default=3, help="of which the best counts")
    options.add_argument("--scaling", choices=("ray", "local"))
    options.add_argument("--table", action="store_true")
    given = options.parse_args(given_options)
    if given.table:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n{table()}\n\n{END}{after}", encoding="utf-8")
        return
    if given.scaling:
        scaling(given.scaling)
        return
    torch.set_num_threads(1)
    if not WRITES:
        print("pyarrow is not installed: Parquet files are not written, all else is counted")
    path = given.out or RESULTS / f"corpus_{given.device}.json"
    memory = None if given.memory is None else int(given.memory * 2**30)
    for name, counts in TEXTS[given.device].items():
        kinds = {k: n for k, n in counts.items() if given.kind in (None, k)}
        if given.model not in (None, name) or not kinds:
            continue
        lens = lens_of(name, given.device)
        for kind, count in kinds.items():
            count = given.texts or count
            for result in compare(name, lens, kind, count, given.device, given.turns, memory):
                keep(path, result)
    print(f"written to {path}")


if __name__ == "__main__":
    main()
