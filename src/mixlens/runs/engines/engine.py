"""Define an engine, and code that its workers share."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from mixlens.errors import InvalidInput
from mixlens.text.suggestions import no_such

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
    """The name of an engine, its number of workers, and their requirements."""

    kind: str = "local"
    workers: int = 1
    threads: int | None = None  # of one worker
    device: str = "cpu"
    at_once: int = 1  # concurrent tasks of a worker, each in a thread

    def __post_init__(self) -> None:
        if self.kind not in ENGINES:
            raise InvalidInput(no_such("engine", self.kind, ENGINES))
        if self.workers < 1:
            raise InvalidInput(f"{self.workers} is out of range for workers. Pass at least 1.")

    @property
    def is_here(self) -> bool:
        """Return whether this process is the only worker."""
        return self.kind == "local" and self.workers == 1


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Reduce delays of a worker while the context is open.

    The garbage collector ignores existing objects: a model and its libraries are half a million
    objects, and scanning them takes longer than measuring a batch. Threads also switch quickly:
    torch releases the interpreter in every operation, and would otherwise wait for it each time
    while a different thread reads or writes.
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
    """Return the error of a run that stops because its workers die."""
    return (
        f"Workers died {DEATHS} times without finishing a task ({reason}). Use fewer workers "
        "or a smaller --memory; the same command resumes."
    )
