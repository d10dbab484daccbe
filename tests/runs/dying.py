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
