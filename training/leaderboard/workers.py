"""Worker processes that each hold a copy of a model, on two CPU cores or on one GPU."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from typing import Any

import torch

from mixlens import Lens

_LENSES: list[Lens] = []  # the model of this worker process

Job = tuple[Callable[..., Any], tuple[Any, ...]]


def lens() -> Lens:
    """Return the model of this worker process."""
    return _LENSES[0]


def begin(model: str, device: str) -> None:
    """Load the model, on one thread: the other threads belong to the other workers."""
    torch.set_num_threads(1)
    loaded = Lens.from_pretrained(model)
    loaded.model.to(device)
    _LENSES[:] = [loaded]


class Queue(ABC):
    """Jobs of one data set."""

    name: str

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Return whether all results are there."""

    @abstractmethod
    def next_job(self) -> Job | None:
        """Return a function of a module and its arguments, or None if there is no job now."""

    @abstractmethod
    def take(self, job: Job, result: Any) -> None:
        """Keep the result of a job."""


def run_all(
    queues: list[Queue], model: str, device: str, workers: int, minutes: float | None
) -> bool:
    """Run the jobs of all queues in turn, until they are finished or the time is over.

    A queue whose job fails is given up, and the others go on. Returns whether all queues are
    finished.
    """
    end = float("inf") if minutes is None else time.monotonic() + 60 * minutes
    failed: list[Queue] = []
    running: dict[Future[Any], tuple[Queue, Job]] = {}
    pool = ProcessPoolExecutor(
        workers, get_context("spawn"), initializer=begin, initargs=(model, device)
    )
    with pool:
        turns = _turns(queues, failed)
        while True:
            while len(running) < 2 * workers and time.monotonic() < end:
                chosen = next(turns)
                if chosen is None:
                    break
                running[pool.submit(chosen[1][0], *chosen[1][1])] = chosen
            if not running:
                break
            left = max(0.0, end - time.monotonic()) if end < float("inf") else None
            done, _ = wait(running, timeout=left, return_when=FIRST_COMPLETED)
            if time.monotonic() >= end:
                for future in [each for each in running if each.cancel()]:
                    del running[future]
                done, _ = wait(running)
            for future in done:
                queue, job = running.pop(future)
                error = future.exception()
                if error is None:
                    queue.take(job, future.result())
                elif queue not in failed:
                    failed.append(queue)
                    print(f"{queue.name}: {type(error).__name__}: {error}", file=sys.stderr)
    return not failed and all(queue.finished for queue in queues)


def _turns(queues: list[Queue], failed: list[Queue]) -> Iterator[tuple[Queue, Job] | None]:
    """Yield one job of each queue in turn, or None if no queue has one now."""
    place, idle = 0, 0
    while True:
        if idle >= len(queues):
            idle = 0
            yield None
        queue = queues[place % len(queues)]
        place += 1
        job = None if queue in failed else queue.next_job()
        if job is None:
            idle += 1
        else:
            idle = 0
            yield queue, job
