"""Time calls after a warm-up, in turn, so that a busy machine slows all of them alike."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

Clock = Callable[[], float]


@dataclass(frozen=True)
class Timing:
    """Repeated measurements of one thing."""

    seconds: tuple[float, ...]

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def __str__(self) -> str:
        return f"{spelled(self.best)} (median {spelled(self.median)} of {len(self.seconds)})"


def spelled(seconds: float) -> str:
    """Three digits and a unit."""
    for limit, factor, unit in (
        (1e-3, 1e6, "µs"),
        (1.0, 1e3, "ms"),
        (600.0, 1.0, "s"),
        (36_000.0, 1 / 60, "min"),
    ):
        if seconds < limit:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds / 3600:.3g} h"


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """Torch with so many threads while open."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def once(run: Callable[[], Any], clock: Clock = time.perf_counter) -> float:
    """Seconds of one call by a clock; a GPU is waited for."""
    _wait()
    start = clock()
    run()
    _wait()
    return clock() - start


def _wait() -> None:
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def in_turns(
    runs: Mapping[str, Callable[[], Any]],
    *,
    repeats: int,
    seconds: float = float("inf"),
    warm_up: bool = True,
    clock: Clock = time.perf_counter,
) -> dict[str, Timing]:
    """Each run `repeats` times, one after the other in every round; no new round after `seconds`.

    Warm-up is not counted. `time.process_time` counts what the processor did for this process: on a
    machine that others use too, it says more than the time that went by.
    """
    if warm_up:
        for run in runs.values():
            run()
    times: dict[str, list[float]] = {name: [] for name in runs}
    start = time.perf_counter()
    for number in range(repeats):
        if number and time.perf_counter() - start > seconds:
            break
        for name, run in runs.items():
            times[name].append(once(run, clock))
    return {name: Timing(tuple(measured)) for name, measured in times.items()}


def timed(
    run: Callable[[], Any], *, repeats: int, seconds: float = float("inf"), warm_up: bool = True
) -> Timing:
    return in_turns({"it": run}, repeats=repeats, seconds=seconds, warm_up=warm_up)["it"]
