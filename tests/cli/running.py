"""Run a command in this process, and return its exit status and output."""

from __future__ import annotations

import functools
import io
import sys
from dataclasses import dataclass

import pytest

from mixlens import Lens
from mixlens.cli import main

# Loaded and taken apart once for all commands of a process: what they do to it is undone.
bundled_once = functools.cache(Lens.bundled)


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    status: int
    out: str
    err: str


def run(
    *arguments: str, stdin: bytes = b"", encoding: str = "utf-8", errors: str = "strict"
) -> Ran:
    """Runs `mixlens` with these arguments; output is written in the given encoding."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding, errors, newline="") for _ in range(2)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["mixlens", *arguments])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        patch.setattr(sys, "stdout", streams[0])
        patch.setattr(sys, "stderr", streams[1])
        patch.setattr(Lens, "bundled", bundled_once)
        try:
            main()
            status: int = 0
        except SystemExit as stopped:
            status = stopped.code if isinstance(stopped.code, int) else int(bool(stopped.code))
    for stream in streams:
        stream.flush()
    out, err = (stream.buffer.getvalue().decode(encoding) for stream in streams)
    return Ran(status, out, err)
