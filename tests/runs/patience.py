"""Wait for the output of other processes, not for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import Any, ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")
ATTEMPTS = 3
LONGEST = 600  # seconds


def wait_for_lines(journal: Path, process: Popen[Any], lines: int = 1) -> None:
    """Until a run has written so many lines of its journal."""
    deadline = time.monotonic() + LONGEST
    while not (journal.exists() and journal.read_bytes().count(b"\n") >= lines):
        assert process.poll() is None, "it ended before it could be stopped"
        assert time.monotonic() < deadline, f"nothing was written to {journal}"
        time.sleep(0.02)


def patiently(action: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs) -> Result:
    """Does it again if Ray was late: it gives its processes half a minute to start."""
    for _ in range(ATTEMPTS - 1):
        try:
            return action(*args, **kwargs)
        except Exception as error:
            if "timed out during startup" not in str(error):
                raise
    return action(*args, **kwargs)
