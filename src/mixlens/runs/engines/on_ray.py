"""The Ray engine. Ray actors load the model, receive tasks and return small results.

Maps never pass through Ray's object store. Each worker writes the files of its shards itself, so
all nodes must be able to write to the folder of the run. If a worker dies, it is replaced, and its
tasks are repeated.

A worker is a single process, or a group of processes over which the model is spread. Every process
of a group runs every task, and the first process returns the result. If one process of a group
dies, the whole group is replaced.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from mixlens.errors import InvalidInput, MissingExtra, MixlensError
from mixlens.runs.engines.engine import (
    DEATHS,
    Engine,
    Result,
    Start,
    Task,
    reduce_latency,
    too_many_deaths,
)

# Seconds after an error in which another process of the group may be reported dead, its real cause.
_GRACE = 10.0


class Worker:
    """A process that runs tasks, either alone or as a member of a group."""

    def __init__(self, rank: int, engine: Engine) -> None:
        self._rank, self._engine = rank, engine
        self._store: Any = None
        self._for_good = contextlib.ExitStack()

    def open_store(self) -> tuple[str, int]:
        """Return the address that all processes of a group connect to.

        Call it in the first process of the group.
        """
        import ray
        from torch.distributed import TCPStore

        utilities: Any = ray.util
        host = utilities.get_node_ip_address()
        self._store = TCPStore(host, 0, is_master=True, wait_for_workers=False)
        return host, self._store.port

    def begin(self, start: Start[Any, Any], address: tuple[str, int] | None) -> None:
        """Join the group of processes if there is one, and create the worker that runs tasks."""
        if address is not None:
            from mixlens.model.distributed import join_group

            join_group(address, self._rank, self._engine.group_size, self._engine.device)
        self.worker = start()
        self._for_good.enter_context(reduce_latency())

    def do(self, task: Any) -> Any:
        """Run one task."""
        return self.worker(task)


class _ProcessGroup:
    """The processes of one worker, and their Ray placement group."""

    def __init__(self, ray: Any, engine: Engine) -> None:
        self._ray, self._engine = ray, engine
        self._needs = {"CPU": engine.threads or 1, "GPU": engine.gpus_of_a_process}
        self._place: Any = None
        self._processes: list[Any] = []
        if engine.group_size > 1:  # all of its processes at once or none, on one node if possible
            bundle = {name: number for name, number in self._needs.items() if number}
            self._place = ray.util.placement_group([bundle] * engine.group_size, strategy="PACK")

    def begin(self, start: Start[Any, Any]) -> list[Any]:
        """Start the processes, and return Ray references to wait for."""
        make = self._ray.remote(
            num_cpus=self._needs["CPU"],
            num_gpus=self._needs["GPU"],
            max_concurrency=self._engine.at_once,
        )(Worker)
        self._processes = [
            make.options(**self._at(rank)).remote(rank, self._engine)
            for rank in range(self._engine.group_size)
        ]
        address = None if self._place is None else self._processes[0].open_store.remote()
        return [process.begin.remote(start, address) for process in self._processes]

    def _at(self, rank: int) -> dict[str, Any]:
        if self._place is None:
            return {}
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        at = PlacementGroupSchedulingStrategy(self._place, placement_group_bundle_index=rank)
        return {"scheduling_strategy": at}

    def do(self, task: Any) -> list[Any]:
        """Run one task in every process of the group."""
        return [process.do.remote(task) for process in self._processes]

    def end_processes(self) -> None:
        """Stop all processes, but keep the placement group."""
        for process in self._processes:
            self._ray.kill(process)

    def leave(self) -> None:
        """Stop all processes, and release the placement group."""
        self.end_processes()
        if self._place is not None:
            self._ray.util.remove_placement_group(self._place)


class _Work(NamedTuple):
    """A task that a group of processes is running, with the pending result of each process.

    `number` is None while the processes start.
    """

    group: _ProcessGroup
    number: int | None
    answers: list[Any]


@contextlib.contextmanager
def ray_for(engine: Engine) -> Iterator[Any]:
    """Connect to the cluster of `RAY_ADDRESS`, or start Ray on this machine if it is not
    running.
    """
    try:
        import ray
    except ImportError as error:
        raise MissingExtra("ray", "ray") from error
    if ray.is_initialized():
        yield ray
        return
    # A cluster knows its own size; a local machine must have room for all workers.
    is_local = not os.environ.get("RAY_ADDRESS")
    processes = engine.workers * engine.group_size
    quiet: dict[str, Any] = {
        "log_to_driver": False,
        "include_dashboard": False,
        "configure_logging": False,
    }
    try:
        ray.init(num_cpus=processes * (engine.threads or 1) if is_local else None, **quiet)
    except Exception as error:  # Ray raises bare exceptions if one of its processes is late
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise MixlensError(
            f"Ray could not be started ({reason}). Try again, or use --engine local."
        ) from error
    try:
        if is_local:
            resources: Any = ray.cluster_resources  # it has no types
            _require_gpus(engine, resources().get("GPU", 0))
        yield ray
    finally:
        ray.shutdown()


def _require_gpus(engine: Engine, available: float) -> None:
    """Raise an error if no worker fits on this machine, because Ray would wait for GPUs forever."""
    needed = engine.group_size * engine.gpus_of_a_process
    if needed > available:
        raise InvalidInput(
            f"A worker needs {needed:g} GPUs, and this machine has {available:g}. Pass a smaller"
            " --group-size, --device cpu, or set RAY_ADDRESS to use a cluster."
        )


def do_on_ray(
    engine: Engine, start: Start[Task, Result], tasks: Sequence[Task]
) -> Iterator[tuple[int, Result]]:
    """Run tasks on the cluster of `RAY_ADDRESS`, or on this machine if the variable is not set."""
    with ray_for(engine) as ray:
        groups = [_ProcessGroup(ray, engine) for _ in range(min(engine.workers, len(tasks)))]
        try:
            yield from _schedule(ray, engine, start, tasks, groups)
        finally:
            for group in groups:
                group.leave()


def _schedule(
    ray: Any,
    engine: Engine,
    start: Start[Task, Result],
    tasks: Sequence[Task],
    groups: Sequence[_ProcessGroup],
) -> Iterator[tuple[int, Result]]:
    waiting, remaining, deaths = list(reversed(range(len(tasks)))), len(tasks), 0
    running: list[_Work] = [_Work(group, None, group.begin(start)) for group in groups]
    idle: list[_ProcessGroup] = []
    while remaining:
        while waiting and idle:
            group, number = idle.pop(0), waiting.pop()
            running.append(_Work(group, number, group.do(tasks[number])))
        work, death = _next_end(ray, running)
        if death is not None:
            deaths += 1
            if deaths == DEATHS:
                raise MixlensError(too_many_deaths(str(death).splitlines()[0])) from death
            lost = [each for each in running if each.group is work.group]
            waiting += [each.number for each in lost if each.number is not None]
            running = [each for each in running if each.group is not work.group]
            idle = [group for group in idle if group is not work.group]
            work.group.end_processes()
            running.append(_Work(work.group, None, work.group.begin(start)))
            continue
        running.remove(work)
        if work.number is None:
            idle += [work.group] * engine.at_once
            continue
        deaths = 0
        remaining -= 1
        idle.append(work.group)
        yield work.number, ray.get(work.answers[0])


def _next_end(ray: Any, running: Sequence[_Work]) -> tuple[_Work, Exception | None]:
    """Wait until all processes of a group have finished a task, or one of them has died.

    Return the task, and an error if a process has died (otherwise None). If a process raises an
    error, the error is raised here too.
    """
    finished: set[Any] = set()
    while True:
        for work in running:
            if finished.issuperset(work.answers):
                return work, None
        open_answers = [
            answer for work in running for answer in work.answers if answer not in finished
        ]
        (answer,), _ = ray.wait(open_answers, num_returns=1)
        work = next(work for work in running if answer in work.answers)
        try:
            ray.get(answer)
        except ray.exceptions.RayActorError as death:
            return work, death
        except ray.exceptions.RayTaskError as error:
            cause = _death_in(ray, work.answers)
            if cause is not None:
                return work, cause
            raise error.cause if isinstance(error.cause, MixlensError) else error from None
        finished.add(answer)


def _death_in(ray: Any, answers: Sequence[Any]) -> Exception | None:
    """Return the error that reports the death of a process in a group, or None.

    If one process dies, other processes of its group may fail as a consequence.
    """
    if len(answers) == 1:
        return None
    ended, _ = ray.wait(list(answers), num_returns=len(answers), timeout=_GRACE)
    for answer in ended:
        try:
            ray.get(answer)
        except ray.exceptions.RayActorError as death:
            return death  # type: ignore[no-any-return]
        except ray.exceptions.RayTaskError:
            continue
    return None
