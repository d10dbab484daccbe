"""Find the worker processes of a local Ray."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def ray_workers() -> list[int]:
    """Processes of Ray below this one that hold a model."""
    numbers = []
    for path in Path("/proc").iterdir():
        try:
            name = (path / "cmdline").read_bytes() if path.name.isdigit() else b""
        except OSError:
            continue
        if name.startswith(b"ray::Worker") and os.getpid() in _above(int(path.name)):
            numbers.append(int(path.name))
    return sorted(numbers)


def _above(process: int) -> Iterator[int]:
    """The parent of a process, its parent, and so on."""
    while process > 1:
        try:
            status = Path(f"/proc/{process}/status").read_text()
        except OSError:
            return
        process = int(status.partition("PPid:")[2].split()[0])
        yield process
