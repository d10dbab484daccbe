"""A bar on standard error with the time that is left; an interruption says how to resume."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mixlens.runs.observing import Progress

EVERY = 30.0  # seconds between plain lines, where no bar can be drawn
INTERRUPTED = 130  # as a shell has it


class PlainLines:
    """Plain progress lines on standard error for logs, one every `EVERY` seconds at most."""

    def __init__(self) -> None:
        self._start = self._last = time.monotonic()

    def show(self, label: str, done: int, total: int | None) -> None:
        """Print how much is done and about how long the rest takes, if a line is due."""
        now = time.monotonic()
        if now - self._last < EVERY:
            return
        self._last = now
        spent = now - self._start
        left = f", about {spent / done * (total - done):.0f} s left" if done and total else ""
        of_all = f"{done} of {total}" if total else str(done)
        print(f"{label}: {of_all} after {spent:.0f} s{left}", file=sys.stderr, flush=True)


@contextmanager
def progress_bar(out: Path | None, label: str = "texts") -> Iterator[Progress]:
    """Shows how much is done; `out` is the folder from which a run can resume."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    parts = (
        TextColumn(label),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        TimeRemainingColumn(),
    )
    counts = {"done": 0, "total": 0}
    console, plain = Console(stderr=True), PlainLines()
    with Progress(*parts, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(label, total=None, rate="", left="")

        def update(done: int, total: int, before: int) -> None:
            if counts["total"] == 0 and before:
                bar.console.print(f"resuming after {before} of {total}", style="dim")
            counts.update(done=done, total=total)
            bar.update(task, completed=done, total=total)
            if not console.is_terminal:
                plain.show(label, done, total)
            speed = bar.tasks[0].speed  # of the last half minute: loading does not count
            if speed is not None:
                bar.update(task, rate=f"{speed:.3g} a second", left="left")

        try:
            yield update
        except KeyboardInterrupt:
            bar.stop()
            said = f"interrupted after {counts['done']} of {counts['total']}"
            kept = (
                f"; what was done is in {out}: the same command resumes there"
                if out
                else "; with --out DIR a run can be resumed"
            )
            print(said + kept, file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None
