"""Engines run tasks. Each yields the result of every task, in any order.

A task is anything that can be sent to a different process: a shard of a corpus, a text of a
benchmark. `start` creates a worker, once in each process, which then runs task after task. If an
engine stops for any reason, finished tasks stay finished.

    engine  Define an engine, and code that its workers share.
    local   The local engine: this process, or several.
    on_ray  The Ray engine: actors that hold the model, receive tasks and return small results.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from mixlens.runs.engines.engine import ENGINES, Engine, Result, Start, Task, Worker, undisturbed

__all__ = ["ENGINES", "Engine", "Start", "Worker", "do_tasks", "running", "undisturbed"]


def do_tasks(
    engine: Engine, start: Start[Task, Result], tasks: Sequence[Task]
) -> Iterator[tuple[int, Result]]:
    """Yield the number and the result of each task as it finishes."""
    if not tasks:
        return iter(())
    if engine.kind == "ray":
        from mixlens.runs.engines.on_ray import do_on_ray

        return do_on_ray(engine, start, tasks)
    from mixlens.runs.engines.local import do_here, do_in_processes

    return (do_here if engine.workers == 1 else do_in_processes)(engine, start, tasks)


def running(engine: Engine) -> contextlib.AbstractContextManager[object]:
    """Keep an engine running for several calls of `do_tasks`, as groups of processes need it."""
    if engine.group_size == 1:
        return contextlib.nullcontext()
    from mixlens.runs.engines.on_ray import ray_for

    return ray_for(engine)
