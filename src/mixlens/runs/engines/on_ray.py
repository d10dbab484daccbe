"""The Ray engine: actors that hold the model, get shards and give back counts.

No map passes through Ray's object store: a worker writes its own files, so that `out` must be a
folder that all nodes share. A worker that dies is replaced, and its shard is done again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from mixlens.errors import MissingExtra, MixlensError
from mixlens.runs.engines.local import DEATHS
from mixlens.runs.shard import Report, measure_shard

if TYPE_CHECKING:
    from mixlens.corpus.shards import Shard
    from mixlens.runs.job import Job, ModelSource


class Worker:
    """A process with the model in it."""

    def __init__(self, source: ModelSource, job: Job) -> None:
        self.lens, self.job = source.load(), job

    def measure(self, shard: Shard) -> Report:
        """One shard."""
        return measure_shard(self.lens, self.job, shard)


def measure_on_ray(
    source: ModelSource, job: Job, shards: Sequence[Shard], workers: int
) -> Iterator[Report]:
    """Uses the cluster that `RAY_ADDRESS` names, or one of this machine."""
    try:
        import ray
    except ImportError as error:
        raise MissingExtra("ray", "ray") from error
    started = not ray.is_initialized()
    if started:
        # A cluster knows its own size; a machine of our own must have room for all workers.
        cpus = None if os.environ.get("RAY_ADDRESS") else workers * (source.threads or 1)
        quiet: dict[str, Any] = {
            "log_to_driver": False,
            "include_dashboard": False,
            "configure_logging": False,
        }
        try:
            ray.init(num_cpus=cpus, **quiet)
        except Exception as error:  # Ray raises bare exceptions if a process of it is late
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise MixlensError(
                f"Ray could not be started ({reason}): try again, or use --engine local"
            ) from error
    try:
        yield from _scheduled(ray, source, job, shards, workers)
    finally:
        if started:
            ray.shutdown()


def _scheduled(
    ray: Any, source: ModelSource, job: Job, shards: Sequence[Shard], workers: int
) -> Iterator[Report]:
    gpus = 1 if source.device.startswith("cuda") else 0
    actor = ray.remote(num_cpus=source.threads or 1, num_gpus=gpus)(Worker)
    waiting, deaths = list(reversed(shards)), 0
    running: dict[Any, tuple[Any, Shard]] = {}
    idle = [actor.remote(source, job) for _ in range(min(workers, len(shards)))]
    while waiting or running:
        while waiting and idle:
            worker, shard = idle.pop(), waiting.pop()
            running[worker.measure.remote(shard)] = (worker, shard)
        (done,), _ = ray.wait(list(running), num_returns=1)
        worker, shard = running.pop(done)
        try:
            report: Report = ray.get(done)
        except ray.exceptions.RayActorError as error:
            deaths += 1
            if deaths == DEATHS:
                raise MixlensError(
                    f"workers died {DEATHS} times without finishing a shard"
                    f" ({str(error).splitlines()[0]}); the same command goes on"
                ) from error
            waiting.append(shard)
            idle.append(actor.remote(source, job))
        except ray.exceptions.RayTaskError as error:
            raise error.cause if isinstance(error.cause, MixlensError) else error from None
        else:
            deaths = 0
            idle.append(worker)
            yield report
