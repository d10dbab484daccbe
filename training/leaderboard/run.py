"""Run every entry of the leaderboard within a time limit.

    python -m training.leaderboard.run --folder FOLDER --out OUT --jobs 16 --seconds 500

FOLDER is what `training.leaderboard.models` makes. What it does not hold is left out and said so.
Fine-tuned models are made in it, if they are not there. Every row is one `mixlens benchmark` with
a folder of its own in OUT, where it goes on if it was stopped; what it found comes into
OUT/rows/NAME.json. `python -m docs.leaderboard_pages --take OUT/rows` makes the pages from that.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from .rows import BUNDLED, ROWS, TRAINED

BEGAN = time.monotonic()


def log(message: str) -> None:
    print(f"{time.monotonic() - BEGAN:6.0f} s  {message}", flush=True)


class Runner:
    """Commands one after the other or side by side, all over by the same moment."""

    def __init__(
        self, folder: Path, out: Path, *, seconds: float, device: str, texts: int | None = None
    ) -> None:
        self.folder, self.out, self.device, self.texts = folder, out, device, texts
        self.end = time.monotonic() + seconds
        self._training: dict[str, Future[str | None]] = {}
        self._running: set[int] = set()
        (out / "rows").mkdir(parents=True, exist_ok=True)
        (out / "logs").mkdir(exist_ok=True)

    def row(self, name: str, workers: int) -> str:
        """Runs one row; says in a word how it ended."""
        row, result = ROWS[name], self.out / "rows" / f"{name}.json"
        if result.exists():
            return "was done"
        missing = self.missing(row.models)
        if missing:
            return missing
        arguments = row.shortened(self.texts).arguments(str(self.folder))
        arguments += ["--out", str(self.out / name), "--submit", str(result)]
        arguments += ["--workers", str(workers), "--threads", "1"]
        arguments += ["--device", self.device if row.large else "cpu"]
        return self.command(name, arguments) or "done"

    @contextmanager
    def training_of(self, models: Iterable[str]) -> Iterator[None]:
        """Those that are fine-tuned are made at once, each by itself, while the block is run."""
        needed = sorted(TRAINED.keys() & set(models))
        with ThreadPoolExecutor(max(1, len(needed))) as trainers:
            self._training = {name: trainers.submit(self.train, name) for name in needed}
            yield

    def missing(self, models: Iterable[str]) -> str | None:
        """Why something cannot be run, if one of its models is not there; waits for training."""
        for name in models:
            reason = self._training[name].result() if name in self._training else None
            if reason or not (name.startswith(BUNDLED) or (self.folder / name).exists()):
                return f"left out: {name} {reason or 'is not in the folder'}"
        return None

    def train(self, name: str) -> str | None:
        """Makes a fine-tuned model; the reason, if that failed. Of several runs that need it, one
        makes it, and the others wait.
        """
        place, draft = self.folder / name, self.folder / f".{name}"
        with open(self.folder / f".{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if place.exists():
                return None
            arguments = TRAINED[name].arguments(str(self.folder), str(draft))
            reason = self.command(name, [*arguments, "--device", self.device])
            if reason is None:
                draft.rename(place)
        log(f"{name}: {reason or 'trained'}")
        return reason

    def command(self, name: str, arguments: Sequence[str]) -> str | None:
        """Runs `mixlens`; the reason, if it failed. The workers of a command end with it."""
        left = self.end - time.monotonic()
        if left < 1:
            return "not begun: no time left"
        with open(self.out / "logs" / f"{name}.log", "ab") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "mixlens", *arguments],
                stdout=file,
                stderr=file,
                start_new_session=True,
                env={**os.environ, "OMP_NUM_THREADS": "1"},  # else each takes all processors
            )
            self._running.add(process.pid)
            try:
                code = process.wait(left)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return "stopped: out of time; the same command goes on"
            finally:
                self._running.discard(process.pid)
        return None if code == 0 else f"failed with {code}: see {file.name}"

    def stop(self, number: int, _: object) -> None:
        """Ends all commands and their workers: what a signal does."""
        for process in list(self._running):
            os.killpg(process, signal.SIGKILL)
        os._exit(128 + number)


def run(runner: Runner, rows: Sequence[str], jobs: int) -> None:
    """Rows are run in two lines, those of large models on the device and the others on the
    processor, so that neither waits for the other.
    """
    models = {name for row in rows for name in ROWS[row].models}
    on_device = [name for name in rows if ROWS[name].large]
    lines = [
        sorted(line, key=lambda name: not TRAINED.keys().isdisjoint(ROWS[name].models))
        for line in (on_device, [name for name in rows if name not in on_device])
        if line
    ]

    def work(line: Sequence[str]) -> None:
        for name in line:
            began = time.monotonic()
            ended = runner.row(name, max(1, jobs // len(lines)))
            log(f"{name}: {ended}, {time.monotonic() - began:.0f} s")

    with runner.training_of(models), ThreadPoolExecutor(len(lines)) as pool:
        list(pool.map(work, lines))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes in all")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--texts", type=int, help="at most so many in a row: a quick look")
    parser.add_argument("--device", default="cpu", help="for fine-tuning and large models")
    parser.add_argument("--rows", default=",".join(ROWS), help="names with commas between them")
    chosen = parser.parse_args()
    runner = Runner(
        chosen.folder,
        chosen.out,
        seconds=chosen.seconds,
        device=chosen.device,
        texts=chosen.texts,
    )
    signal.signal(signal.SIGTERM, runner.stop)
    run(runner, chosen.rows.split(","), chosen.jobs)


if __name__ == "__main__":
    main()
