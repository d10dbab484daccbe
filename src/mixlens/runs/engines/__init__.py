"""Engines run tasks and yield their results in any order.

A task is any object that can be sent to another process, such as a shard of a corpus or a text of a
benchmark. `start` creates a worker once in each process, which then runs one task after another. If
an engine stops for any reason, the results of finished tasks are not lost.

    engine  The settings of an engine, and functions that all engines use.
    local   The local engine, which uses this process or starts several.
    on_ray  The Ray engine. Its actors hold the model, receive tasks and return small results.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from mixlens.runs.engines.engine import ENGINES, Engine, Result, Start, Task, Worker, reduce_latency

__all__ = ["ENGINES", "Engine", "Start", "Worker", "do_tasks", "reduce_latency", "running"]


def do_tasks(
    engine: Engine, start: Start[Task, Result], tasks: Sequence[Task]
) -> Iterator[tuple[int, Result]]:
    """Run all tasks. When a task finishes, yield its index and its result."""
    if not tasks:
        return iter(())
    if engine.kind == "ray":
        from mixlens.runs.engines.on_ray import do_on_ray

        return do_on_ray(engine, start, tasks)
    from mixlens.runs.engines.local import do_here, do_in_processes

    return (do_here if engine.workers == 1 else do_in_processes)(engine, start, tasks)


def running(engine: Engine) -> contextlib.AbstractContextManager[object]:
    """Keep an engine running across several calls of `do_tasks`.

    This matters only if the workers are groups of processes. Otherwise, the context does nothing.
    """
    if engine.group_size == 1:
        return contextlib.nullcontext()
    from mixlens.runs.engines.on_ray import ray_for

    return ray_for(engine)
