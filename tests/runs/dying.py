"""Workers that die; nothing heavy is imported here, because every process imports it anew."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path


def dies_at(marks: str, times: int) -> Callable[[int], int]:
    """A worker that is killed at task 3, so many times."""

    def do(task: int) -> int:
        if task == 3:
            for number in range(times):
                mark = Path(marks, str(number))
                if not mark.exists():
                    mark.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
        return 10 * task

    return do


def fails_in_process_1() -> Callable[[int], list[int]]:
    """A worker of several processes, of which one raises an error at task 3."""
    from torch import distributed

    from mixlens.errors import InvalidInput

    rank = distributed.get_rank()

    def do(task: int) -> list[int]:
        if task == 3 and rank == 1:
            raise InvalidInput("process 1 cannot do task 3")
        return [rank, 10 * task]

    return do
