"""The local engine: this process, or several that each hold the model.

A worker that dies (the system kills the largest process when memory runs out) is replaced, and its
shard is done again.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING

from mixlens.errors import MixlensError
from mixlens.runs.shard import Report, measure_shard

if TYPE_CHECKING:
    from mixlens.corpus.shards import Shard
    from mixlens.lens import Lens
    from mixlens.runs.job import Job, ModelSource

DEATHS = 3  # of workers in a row, with no shard finished in between: then the fault is not chance

_lens: Lens | None = None  # of a worker's process
_job: Job | None = None


def measure_locally(
    source: ModelSource, job: Job, shards: Sequence[Shard], workers: int
) -> Iterator[Report]:
    """One worker measures here; more are processes of their own."""
    if workers == 1:
        lens = source.load()
        yield from (measure_shard(lens, job, shard) for shard in shards)
        return
    left = {shard.number: shard for shard in shards}
    deaths = 0
    while left:
        before = len(left)
        for report in _until_one_dies(source, job, list(left.values()), workers):
            del left[report["shard"]]
            yield report
        deaths = deaths + 1 if left and len(left) == before else 0
        if deaths == DEATHS:
            raise MixlensError(
                f"workers died {DEATHS} times without finishing a shard, most likely for want of"
                " memory: use fewer workers or a smaller --memory; the same command goes on"
            )


def _until_one_dies(
    source: ModelSource, job: Job, shards: Sequence[Shard], workers: int
) -> Iterator[Report]:
    context = multiprocessing.get_context("spawn")  # a forked torch may hang
    pool = ProcessPoolExecutor(
        min(workers, len(shards)), context, initializer=_start, initargs=(source, job)
    )
    try:
        waiting = list(reversed(shards))
        running: set[Future[Report]] = set()
        while waiting or running:
            while waiting and len(running) < 2 * workers:  # the next one is at hand at once
                running.add(pool.submit(_measure, waiting.pop()))
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
    except BrokenProcessPool:
        return
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _start(source: ModelSource, job: Job) -> None:
    global _lens, _job
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which ends its workers
    _lens, _job = source.load(), job


def _measure(shard: Shard) -> Report:
    assert _lens is not None
    assert _job is not None
    return measure_shard(_lens, _job, shard)
