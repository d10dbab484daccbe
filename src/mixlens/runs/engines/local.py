"""The local engine, which runs tasks in this process or in several worker processes.

If a worker dies (for example because the system kills the largest process when memory runs out), it
is replaced, and its task is repeated.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from mixlens.errors import MixlensError
from mixlens.runs.engines.engine import (
    DEATHS,
    Engine,
    Result,
    Start,
    Task,
    Worker,
    reduce_latency,
    too_many_deaths,
)

_worker: Worker | None = None  # of a process
_for_good = contextlib.ExitStack()


def do_here(
    engine: Engine, start: Start[Task, Result], tasks: Sequence[Task]
) -> Iterator[tuple[int, Result]]:
    """Run tasks in this process, either one after another or a few at a time in threads."""
    worker = start()
    with reduce_latency():
        if engine.at_once == 1:
            for number, task in enumerate(tasks):
                yield number, worker(task)
            return
        with ThreadPoolExecutor(engine.at_once) as pool:
            yield from _as_finished(pool, worker, dict(enumerate(tasks)), engine.at_once)


def do_in_processes(
    engine: Engine, start: Start[Task, Result], tasks: Sequence[Task]
) -> Iterator[tuple[int, Result]]:
    """Run tasks in separate processes."""
    remaining, deaths = dict(enumerate(tasks)), 0
    while remaining:
        before = len(remaining)
        for number, result in _until_one_dies(engine, start, remaining):
            del remaining[number]
            yield number, result
        deaths = deaths + 1 if remaining and len(remaining) == before else 0
        if deaths == DEATHS:
            raise MixlensError(too_many_deaths("most likely because memory ran out"))


def _until_one_dies(
    engine: Engine, start: Start[Task, Result], tasks: dict[int, Task]
) -> Iterator[tuple[int, Result]]:
    context = multiprocessing.get_context("spawn")  # a forked torch may hang
    workers = min(engine.workers, len(tasks))
    pool = ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(start,))
    try:
        # With twice as many tasks queued, no worker waits for this process.
        yield from _as_finished(pool, _do, dict(tasks), 2 * workers)
    except BrokenProcessPool:
        return
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _as_finished(
    pool: Executor, worker: Worker, tasks: dict[int, Any], at_once: int
) -> Iterator[tuple[int, Any]]:
    waiting = list(reversed(tasks.items()))
    running: dict[Future[Any], int] = {}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                number, task = waiting.pop()
                running[pool.submit(worker, task)] = number
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield running.pop(future), future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _begin(start: Start[Any, Any]) -> None:
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which stops its workers
    _worker = start()
    _for_good.enter_context(reduce_latency())


def _do(task: Any) -> Any:
    assert _worker is not None
    return _worker(task)
