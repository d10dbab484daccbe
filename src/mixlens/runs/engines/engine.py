"""What an engine is, and what its workers share."""

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
_TURN = 1e-5  # seconds that a thread may keep the interpreter while a different one waits
DEATHS = 3  # of workers in a row, with no task finished in between: then the fault is not chance

Task = TypeVar("Task")
Result = TypeVar("Result")
Start = Callable[[], Callable[[Task], Result]]
"""Makes a worker, in the process that will use it."""
Worker = Callable[[Any], Any]


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Which engine, with how many workers, and what each of them needs."""

    kind: str = "local"
    workers: int = 1
    threads: int | None = None  # of one worker
    device: str = "cpu"
    at_once: int = 1  # tasks that a worker may have in hand, in as many threads

    def __post_init__(self) -> None:
        if self.kind not in ENGINES:
            raise InvalidInput(no_such("engine", self.kind, ENGINES))
        if self.workers < 1:
            raise InvalidInput(f"{self.workers} is out of range for workers. Pass at least 1.")

    @property
    def is_here(self) -> bool:
        """Is this process the only worker?"""
        return self.kind == "local" and self.workers == 1


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """While open, a worker works with as little delay as Python allows.

    What is there already is left alone by the garbage collector: a model and its libraries are half
    a million objects, and to look at all of them takes longer than to measure a batch. And threads
    take turns quickly: torch lets go of the interpreter in every operation, and would wait for it
    each time while a different thread reads or writes.
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
    """The message of a run that ends because its workers die."""
    return (
        f"workers died {DEATHS} times without finishing a task ({reason}): use fewer workers or a"
        " smaller --memory. The same command resumes"
    )
