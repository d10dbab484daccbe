"""The settings of an engine, and functions that all engines use."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from mixlens.errors import InvalidInput, no_such

ENGINES = ("local", "ray")
_TURN = 1e-5  # longest time in seconds that a thread keeps the interpreter while another waits
DEATHS = 3  # deaths of workers in a row without a finished task, after which a run stops

Task = TypeVar("Task")
Result = TypeVar("Result")
Start = Callable[[], Callable[[Task], Result]]
"""Creates a worker, in the process that will use it."""
Worker = Callable[[Any], Any]


@dataclass(frozen=True, kw_only=True)
class Engine:
    """The kind of an engine, its number of workers, and the resources of each worker."""

    kind: str = "local"
    workers: int = 1
    threads: int | None = None  # of one process
    device: str = "cpu"
    at_once: int = 1  # concurrent tasks of a worker, each in a thread
    group_size: int = 1  # processes of a worker, over which its model is spread
    gpus_per_worker: float | None = None  # a part of a GPU, or None for one GPU per process

    def __post_init__(self) -> None:
        if self.kind not in ENGINES:
            raise InvalidInput(no_such("engine", self.kind, ENGINES))
        if self.workers < 1:
            raise InvalidInput(f"{self.workers} is out of range for workers. Pass at least 1.")
        if self.group_size < 1:
            raise InvalidInput(
                f"{self.group_size} is out of range for --group-size. Pass at least 1."
            )
        if self.group_size > 1 and self.kind != "ray":
            raise InvalidInput(
                f"--group-size {self.group_size} does not work with --engine {self.kind}. Use "
                "--engine ray."
            )
        if self.group_size > 1 and self.at_once > 1:
            raise InvalidInput("The processes of a group run one task at a time. Pass at_once=1.")
        self._require_part_of_a_gpu()

    def _require_part_of_a_gpu(self) -> None:
        part = self.gpus_per_worker
        if part is None:
            return
        if not 0 < part <= 1:
            raise InvalidInput(
                f"{part:g} is out of range for --gpus-per-worker. Pass a value in (0, 1], "
                "or spread the model over several GPUs with --group-size."
            )
        if self.kind != "ray" or not self.device.startswith("cuda"):
            raise InvalidInput(
                f"--gpus-per-worker {part:g} does not work with --engine {self.kind} and --device "
                f"{self.device}. Use --engine ray --device cuda."
            )
        if self.group_size > 1:
            raise InvalidInput(
                f"--gpus-per-worker {part:g} does not work with --group-size {self.group_size}: "
                "each process of a group needs its own GPU. Pass only one of these options."
            )

    @property
    def gpus_of_a_process(self) -> float:
        """Return the number of GPUs that each process needs, which may be a fraction."""
        if not self.device.startswith("cuda"):
            return 0
        return 1 if self.gpus_per_worker is None else self.gpus_per_worker

    @property
    def is_here(self) -> bool:
        """Return whether all tasks run in this process."""
        return self.kind == "local" and self.workers == 1


@contextlib.contextmanager
def reduce_latency() -> Iterator[None]:
    """Reduce latency in a worker while the context is active.

    The garbage collector ignores all objects that already exist. A model and its libraries consist
    of half a million objects, and scanning them takes longer than measuring a batch. The thread
    switch interval is also reduced. PyTorch releases the interpreter lock in every operation, and
    would otherwise wait for the lock while another thread reads or writes.
    """
    before = sys.getswitchinterval()
    gc.freeze()
    sys.setswitchinterval(_TURN)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
        gc.unfreeze()


def too_many_deaths(reason: str) -> str:
    """Return the error message for a run that stops because its workers keep dying."""
    return (
        f"Workers died {DEATHS} times without finishing a task ({reason}). Use fewer workers "
        "or a smaller --memory; the same command resumes."
    )
