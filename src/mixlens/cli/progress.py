"""Report progress on stderr: a bar in a terminal, an occasional line in a log."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from mixlens.cli.exit_codes import INTERRUPTED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mixlens.datasets.object_storage import AnyPath
    from mixlens.runs.observing import Progress

EVERY = 30.0  # seconds between plain lines when there is no terminal


class PlainLines:
    """Progress lines on stderr for logs, at most one every `EVERY` seconds."""

    def __init__(self) -> None:
        self._start = self._last = time.monotonic()

    def show(self, label: str, done: int, total: int | None) -> None:
        """If the last line is at least `EVERY` seconds old, print the progress and the estimated
        time left.
        """
        now = time.monotonic()
        if now - self._last < EVERY:
            return
        self._last = now
        spent = now - self._start
        remaining = f", about {spent / done * (total - done):.0f} s left" if done and total else ""
        of_all = f"{done} of {total}" if total else str(done)
        print(f"{label}: {of_all} after {spent:.0f} s{remaining}", file=sys.stderr, flush=True)


@contextmanager
def heartbeat(label: str) -> Iterator[None]:
    """While the context is open, print the elapsed time every `EVERY` seconds.

    Use this for work that does not report its progress.
    """
    stopped, start = threading.Event(), time.monotonic()

    def beat() -> None:
        while not stopped.wait(EVERY):
            spent = time.monotonic() - start
            print(f"{label}: {spent:.0f} s so far", file=sys.stderr, flush=True)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


@contextmanager
def progress_bar(out: AnyPath | None, label: str = "texts") -> Iterator[Progress]:
    """Show the progress of a run. `out` is the folder from which it can be resumed."""
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
                bar.console.print(f"Resuming after {before} of {total}", style="dim")
            counts.update(done=done, total=total)
            bar.update(task, completed=done, total=total)
            if not console.is_terminal:
                plain.show(label, done, total)
            speed = bar.tasks[
                0
            ].speed  # Estimate speed from the last half minute, so that loading does not count.
            if speed is not None:
                bar.update(task, rate=f"{speed:.3g} a second", left="left")

        try:
            yield update
        except KeyboardInterrupt:
            bar.stop()
            advice = (
                f"Run the same command to resume in {out}."
                if out
                else "Pass --out FOLDER to make a run resumable."
            )
            done = f"Interrupted after {counts['done']} of {counts['total']}."
            print(f"{done} {advice}", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None
