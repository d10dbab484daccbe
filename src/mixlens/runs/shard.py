"""Read, measure and write one shard. Engines call only this module.

The result depends only on the shard, the job and the model. A shard can therefore run on any
machine, in any order, and again after a crash. Several measures share one recording of each batch.

Reading and writing do not need the model. With four threads, the device measures one shard while
the next shard is read and tokenised and the last two are written.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixlens.datasets.object_storage import path_of
from mixlens.datasets.rows import BadRecord, TextRecord, rows_of
from mixlens.datasets.shards import Shard
from mixlens.errors import (
    MissingExtra,
    MissingTokenizer,
    MixlensError,
    ProcessesDiffer,
    UnsupportedModel,
)
from mixlens.measuring.batching import halve_until_it_fits, plan_batches, token_counts
from mixlens.model.distributed import processes_of, synchronise
from mixlens.model.placement import is_out_of_memory
from mixlens.model.session import open_session
from mixlens.recording.batch_independence import DependentTexts
from mixlens.runs import store
from mixlens.runs.aggregates import Aggregates
from mixlens.runs.batch import BatchUnderway, explains_output, start_measuring
from mixlens.runs.job import Job, ModelSource
from mixlens.text.encoding import Encoding, encode_texts
from mixlens.text.inputs import Prepared, prepare_inputs

if TYPE_CHECKING:
    from mixlens.lens import Lens

Report = dict[str, Any]
"""A worker's report of a finished shard: counts, the file with its hash, errors, aggregates."""

Device = AbstractContextManager[Any]
"""A lock that is held while work is passed to the device."""

AT_ONCE = 4  # shards per worker with a GPU; a CPU would do all the work itself

_NO_TEXT_S_FAULT = (MissingTokenizer, MissingExtra, ProcessesDiffer, UnsupportedModel)


def file_name(shard: Shard) -> str:
    """Return the path of a shard's results file, relative to the folder of the run."""
    return f"{store.DATA}/part-{shard.number:06d}.parquet"


class ShardWorker:
    """A worker that measures shards with one model. It can be called from several threads."""

    def __init__(self, lens: Lens, job: Job) -> None:
        self.lens = lens
        self.job = job
        self.device: Device = threading.RLock()
        self._reading = threading.Lock()  # reading threads would only wait for each other

    def __call__(self, shard: Shard) -> Report:
        """Read, measure and write one shard. Texts that cannot be measured are stored as errors."""
        start = time.perf_counter(), time.process_time()
        texts = self.read(shard)
        measured_shard = self.measure(texts)
        processes = processes_of(self.lens.model)
        if processes is not None and processes.rank > 0:  # the first process writes
            return {}
        report = write_results(self.job, shard, texts, measured_shard)
        return {
            **report,
            "seconds": time.perf_counter() - start[0],
            "processor_seconds": time.process_time() - start[1],
        }

    def read(self, shard: Shard) -> Texts:
        """Read the texts of a shard. The device may work on another shard in the meantime."""
        with self._reading:
            return read_texts(self.lens, self.job, shard)

    def measure(self, texts: Texts) -> MeasuredShard:
        """Measure every text. If a text cannot be measured, the reason is stored."""
        shard = MeasuredShard(self.lens, self.job, texts, self.device)
        with synchronise(self.lens.model):
            shard.measure()
        return shard


def worker_for(source: ModelSource, job: Job) -> ShardWorker:
    """Create a worker in the process that will use it."""
    return ShardWorker(source.load(), job)


@dataclass(frozen=True, kw_only=True)
class Texts:
    """The texts of a shard, divided into batches."""

    rows: Sequence[TextRecord]
    bad: Sequence[BadRecord]
    lengths: Sequence[int]
    batches: Sequence[tuple[list[int], Prepared | None]]  # None if a text is invalid


def read_texts(lens: Lens, job: Job, shard: Shard) -> Texts:
    """Read and tokenise the texts of a shard, and plan its batches. This does not need the
    device.
    """
    records = list(rows_of(shard, job.columns))
    texts = [record for record in records if isinstance(record, TextRecord)]
    encodings = tokenise(lens, [record.text for record in texts])
    lengths = (
        token_counts(lens.tokenizer, [record.text for record in texts])
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
        bad=[record for record in records if isinstance(record, BadRecord)],
        lengths=lengths,
        batches=[(batch, make_ready(lens, texts, encodings, batch)) for batch in plan],
    )


def tokenise(lens: Lens, texts: list[str]) -> list[Encoding] | None:
    """Tokenise all texts at once. Return None if one of them is invalid."""
    try:
        return encode_texts(lens.tokenizer, texts, None) if texts else []
    except (MixlensError, TypeError, ValueError):
        return None


def make_ready(
    lens: Lens,
    texts: Sequence[TextRecord],
    encodings: Sequence[Encoding] | None,
    batch: Sequence[int],
) -> Prepared | None:
    """Prepare a batch as model input. Return None if one of its texts is invalid."""
    batch_encodings = None if encodings is None else [encodings[place] for place in batch]
    try:
        return prepare_inputs(
            lens.model, lens.tokenizer, [texts[place].text for place in batch], batch_encodings
        )
    except MixlensError:  # measuring shows which text it is
        return None


class MeasuredShard:
    """A shard that is being measured, with its results so far.

    To keep the device busy, the results of a batch are read only after the next batch has started.
    The results of the last batch are read while the device may already work on the next shard.
    """

    def __init__(self, lens: Lens, job: Job, texts: Texts, device: Device) -> None:
        self.chunks: list[store.Chunk] = []
        self.failed: dict[int, str] = {}
        self.about: dict[str, Any] = {}
        self.aggregates: Aggregates = Aggregates()
        self.halved: list[int] = []  # sizes of batches that did not fit
        self._lens, self._job, self._texts, self._device = lens, job, texts, device

    def measure(self) -> None:
        """Measure every batch."""
        underway: list[BatchUnderway] = []
        with self._device, open_session(self._lens.model, restores=False):
            for batch, ready in self._texts.batches:
                started = self._start(batch, ready)
                self._read(underway)
                underway = started
        self._read(underway)

    def _start(self, batch: list[int], ready: Prepared | None = None) -> list[BatchUnderway]:
        def attempt(places: list[int]) -> list[BatchUnderway]:
            inputs = ready if places is batch else None
            return [start_measuring(self._lens, self._job, self._texts.rows, places, inputs)]

        try:
            return halve_until_it_fits(attempt, batch, lambda b: self.halved.append(len(b)))
        except Exception as error:
            self._blame(batch, error)
            return []

    def _read(self, underway: Sequence[BatchUnderway]) -> None:
        for measuring in underway:
            try:
                results = measuring.conclude()
            except Exception as error:
                self._blame(measuring.places, error)
                continue
            self.chunks += results.chunks
            self.about = {**results.about, **self.about}
            self.aggregates.merge(results.aggregates.to_dict())

    def _blame(self, batch: list[int], error: Exception) -> None:
        """Measure a failed batch in smaller parts to find the text that fails.

        The parts are halves, or single texts if the texts cannot be batched.
        """
        texts_fault = isinstance(error, MixlensError) and not isinstance(error, _NO_TEXT_S_FAULT)
        if not texts_fault and not is_out_of_memory(error):
            raise error
        if len(batch) == 1:
            self.failed[batch[0]] = " ".join(str(error).split()) or "out of memory"
            return
        middle = len(batch) // 2
        parts = [batch[:middle], batch[middle:]]
        if isinstance(error, DependentTexts):
            parts = [[place] for place in batch]
        with self._device:
            for part in parts:
                self._read(self._start(part))


def write_results(job: Job, shard: Shard, texts: Texts, measured_shard: MeasuredShard) -> Report:
    """Write the results file of a shard, and return a report for the journal."""
    records, failed = texts.rows, measured_shard.failed
    errors = [_error(shard, record.line, record.id, record.reason) for record in texts.bad]
    errors += [
        _error(shard, records[place].line, records[place].id, reason)
        for place, reason in failed.items()
    ]
    digest = store.write_shard(
        path_of(job.out) / file_name(shard),
        measured_shard.chunks,
        {"settings": job.settings(), "measures": measured_shard.about},
    )
    measured_places = [place for place in range(len(records)) if place not in failed]
    return {
        "shard": shard.number,
        "file": file_name(shard),
        "sha256": digest,
        "texts": len(measured_places),
        "tokens": sum(texts.lengths[place] for place in measured_places),
        "errors": sorted(errors, key=lambda error: error["line"]),
        "halved": measured_shard.halved,
        "aggregates": measured_shard.aggregates.to_dict(),
    }


def _error(shard: Shard, line: int, name: str, reason: str) -> dict[str, Any]:
    file = shard.path if shard.format == "hub" else Path(shard.path).name
    readable = reason.encode("utf-8", "backslashreplace").decode()  # it may quote half a character
    return {"file": file, "line": line, "id": name, "reason": readable}
