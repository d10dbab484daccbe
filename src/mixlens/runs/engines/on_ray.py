"""The Ray engine: actors that hold the model, receive tasks and return small results.

No map passes through Ray's object store: the worker of a shard writes its own file, so all nodes
must share the folder of the run. A worker that dies is replaced, and its tasks are repeated.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

from mixlens.errors import MissingExtra, MixlensError
from mixlens.runs.engines.engine import (
    DEATHS,
    Engine,
    Result,
    Start,
    Task,
    too_many_deaths,
    undisturbed,
)


class Worker:
    """A process that runs tasks."""

    def __init__(self, start: Start[Any, Any]) -> None:
        self.worker = start()
        self._for_good = contextlib.ExitStack()
        self._for_good.enter_context(undisturbed())

    def do(self, task: Any) -> Any:
        """Run one task."""
        return self.worker(task)


def do_on_ray(
    engine: Engine, start: Start[Task, Result], tasks: Sequence[Task]
) -> Iterator[tuple[int, Result]]:
    """Run tasks on the cluster of `RAY_ADDRESS`, or on this machine."""
    try:
        import ray
    except ImportError as error:
        raise MissingExtra("ray", "ray") from error
    started = not ray.is_initialized()
    if started:
        # A cluster knows its own size; a local machine must have room for all workers.
        cpus = None if os.environ.get("RAY_ADDRESS") else engine.workers * (engine.threads or 1)
        quiet: dict[str, Any] = {
            "log_to_driver": False,
            "include_dashboard": False,
            "configure_logging": False,
        }
        try:
            ray.init(num_cpus=cpus, **quiet)
        except Exception as error:  # Ray raises bare exceptions if one of its processes is late
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise MixlensError(
                f"Ray could not be started ({reason}). Try again, or use --engine local."
            ) from error
    try:
        yield from _scheduled(ray, engine, start, tasks)
    finally:
        if started:
            ray.shutdown()


def _scheduled(
    ray: Any, engine: Engine, start: Start[Task, Result], tasks: Sequence[Task]
) -> Iterator[tuple[int, Result]]:
    gpus = 1 if engine.device.startswith("cuda") else 0
    actor = ray.remote(num_cpus=engine.threads or 1, num_gpus=gpus, max_concurrency=engine.at_once)(
        Worker
    )
    waiting, deaths = list(reversed(range(len(tasks)))), 0
    running: dict[Any, tuple[Any, int]] = {}
    alive = [actor.remote(start) for _ in range(min(engine.workers, len(tasks)))]
    idle = alive * engine.at_once
    while waiting or running:
        while waiting and idle:
            worker, number = idle.pop(0), waiting.pop()
            running[worker.do.remote(tasks[number])] = (worker, number)
        (done,), _ = ray.wait(list(running), num_returns=1)
        worker, number = running.pop(done)
        try:
            result: Result = ray.get(done)
        except ray.exceptions.RayActorError as error:
            waiting.append(number)
            if worker not in alive:  # it had more than one task
                continue
            deaths += 1
            if deaths == DEATHS:
                raise MixlensError(too_many_deaths(str(error).splitlines()[0])) from error
            alive.remove(worker)
            alive.append(actor.remote(start))
            idle = [w for w in idle if w is not worker] + alive[-1:] * engine.at_once
        except ray.exceptions.RayTaskError as error:
            raise error.cause if isinstance(error.cause, MixlensError) else error from None
        else:
            deaths = 0
            idle.append(worker)
            yield number, result
