"""One shard: its texts are read, measured and written. Engines do nothing but call this.

It depends on its shard, the job and the model alone, so that it may be done anywhere, in any order,
and again after a crash. Several measures share one recording of each batch.

A shard that is read or written does not need the model. With two threads, one shard is on the
device while the next is read and tokenised and the last is written.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixlens.batching import halve_until_it_fits, plan_batches, token_counts
from mixlens.corpus.rows import BadRow, TextRow, rows_of
from mixlens.corpus.shards import Shard
from mixlens.errors import MissingExtra, MissingTokenizer, MixlensError, UnsupportedModel
from mixlens.recording.encoding import Encoding, encoded
from mixlens.recording.inputs import Prepared, prepared
from mixlens.recording.memory import is_out_of_memory
from mixlens.runs import store
from mixlens.runs.aggregates import Aggregates
from mixlens.runs.batch import Measured, explains_output, measure_texts
from mixlens.runs.job import Job, ModelSource

if TYPE_CHECKING:
    from mixlens.lens import Lens

Report = dict[str, Any]
"""What a worker says of a finished shard: counts, the file with its hash, errors, aggregates."""

_NO_TEXT_S_FAULT = (MissingTokenizer, MissingExtra, UnsupportedModel)


def file_name(shard: Shard) -> str:
    """Where the results of a shard go, below the folder of the run."""
    return f"{store.DATA}/part-{shard.number:06d}.parquet"


class ShardWorker:
    """A model that measures shards; two threads may call it at a time."""

    def __init__(self, lens: Lens, job: Job) -> None:
        self.lens = lens
        self.job = job
        self.device = threading.Lock()

    def __call__(self, shard: Shard) -> Report:
        """Reads, measures and writes one shard. A text that cannot be measured is an error."""
        start = time.perf_counter(), time.process_time()
        texts = read_texts(self.lens, self.job, shard)
        with self.device:
            measured = measure_shard(self.lens, self.job, texts)
        report = write_results(self.job, shard, texts, measured)
        return {
            **report,
            "seconds": time.perf_counter() - start[0],
            "processor_seconds": time.process_time() - start[1],
        }


def worker_for(source: ModelSource, job: Job) -> ShardWorker:
    """In the process that will use it."""
    return ShardWorker(source.load(), job)


@dataclass(frozen=True, kw_only=True)
class Texts:
    """The texts of a shard, and which are measured together."""

    rows: Sequence[TextRow]
    bad: Sequence[BadRow]
    lengths: Sequence[int]
    batches: Sequence[tuple[list[int], Prepared | None]]  # None: something is wrong with a text


def read_texts(lens: Lens, job: Job, shard: Shard) -> Texts:
    """All that can be done without the device."""
    rows = list(rows_of(shard, job.columns))
    texts = [row for row in rows if isinstance(row, TextRow)]
    encodings = _encoded(lens, [row.text for row in texts])
    lengths = (
        token_counts(lens.tokenizer, [row.text for row in texts])
        if encodings is None
        else [len(encoding["input_ids"]) for encoding in encodings]
    )
    plan = plan_batches(
        lengths,
        lens.model,
        memory=job.memory,
        batch_size=1 if job.targets == "generated" else job.batch_size,
        logits=explains_output(job),
    )
    return Texts(
        rows=texts,
        bad=[row for row in rows if isinstance(row, BadRow)],
        lengths=lengths,
        batches=[(batch, _prepared(lens, texts, encodings, batch)) for batch in plan],
    )


def _encoded(lens: Lens, texts: list[str]) -> list[Encoding] | None:
    """All texts at once; None: something is wrong with one of them."""
    try:
        return encoded(lens.tokenizer, texts, None) if texts else []
    except (MixlensError, TypeError, ValueError):
        return None


def _prepared(
    lens: Lens,
    texts: Sequence[TextRow],
    encodings: Sequence[Encoding] | None,
    batch: Sequence[int],
) -> Prepared | None:
    own = None if encodings is None else [encodings[place] for place in batch]
    try:
        return prepared(lens.model, lens.tokenizer, [texts[place].text for place in batch], own)
    except MixlensError:  # which text it is shows when they are measured
        return None


class MeasuredShard:
    """The texts of a shard on their way to rows."""

    def __init__(self) -> None:
        self.chunks: list[store.Chunk] = []
        self.failed: dict[int, str] = {}
        self.about: dict[str, Any] = {}
        self.aggregates: Aggregates = Aggregates()
        self.halved: list[int] = []  # sizes of batches that did not fit


def measure_shard(lens: Lens, job: Job, texts: Texts) -> MeasuredShard:
    """Every batch on the device."""
    shard = MeasuredShard()

    def measure(batch: list[int], ready: Prepared | None = None) -> None:
        """Measures a batch; if it fails, each half of it, to find the text that is to blame."""

        def attempt(places: list[int]) -> list[Measured]:
            inputs = ready if places is batch else None
            return [measure_texts(lens, job, texts.rows, places, inputs, shard.aggregates)]

        try:
            measured = halve_until_it_fits(attempt, batch, lambda b: shard.halved.append(len(b)))
        except _NO_TEXT_S_FAULT:
            raise
        except Exception as error:
            if not isinstance(error, MixlensError) and not is_out_of_memory(error):
                raise
            if len(batch) == 1:
                shard.failed[batch[0]] = " ".join(str(error).split()) or "out of memory"
                return
            middle = len(batch) // 2
            measure(batch[:middle])
            measure(batch[middle:])
            return
        for part in measured:
            shard.chunks += part.chunks
            shard.about = {**part.about, **shard.about}

    for batch, ready in texts.batches:
        measure(batch, ready)
    return shard


def write_results(job: Job, shard: Shard, texts: Texts, measured: MeasuredShard) -> Report:
    """Writes the file of a shard and says what was done."""
    rows, failed = texts.rows, measured.failed
    errors = [_error(shard, row.line, row.id, row.reason) for row in texts.bad]
    errors += [
        _error(shard, rows[place].line, rows[place].id, reason) for place, reason in failed.items()
    ]
    digest = store.write_shard(
        Path(job.out) / file_name(shard),
        measured.chunks,
        {"settings": job.settings(), "measures": measured.about},
    )
    done = [place for place in range(len(rows)) if place not in failed]
    return {
        "shard": shard.number,
        "file": file_name(shard),
        "sha256": digest,
        "texts": len(done),
        "tokens": sum(texts.lengths[place] for place in done),
        "errors": sorted(errors, key=lambda error: error["line"]),
        "halved": measured.halved,
        "aggregates": measured.aggregates.to_dict(),
    }


def _error(shard: Shard, line: int, name: str, reason: str) -> dict[str, Any]:
    file = shard.path if shard.format == "hub" else Path(shard.path).name
    return {"file": file, "line": line, "id": name, "reason": reason}
