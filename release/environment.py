"""Create a new Python environment and run commands in it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / "constraints.txt"


class Failed(Exception):
    """Raised if a step of a checklist fails."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment in a folder of its own."""

    folder: Path

    @classmethod
    def new(cls, folder: Path, python: str = sys.executable) -> Environment:
        """An empty one, for a given interpreter."""
        run(python, "-m", "venv", "--clear", str(folder))
        environment = cls(folder)
        environment.install("pip", upgrade=True)
        return environment

    @property
    def python(self) -> str:
        """Its interpreter."""
        return str(self.folder / "bin" / "python")

    def install(self, *what: str, constrained: bool = False, upgrade: bool = False) -> None:
        """By pip; `constrained` to the versions of development."""
        how = ["--constraint", str(CONSTRAINTS)] if constrained else []
        how += ["--upgrade"] if upgrade else []
        self.run("python", "-m", "pip", "install", "--quiet", *how, *what)

    def run(self, command: str, *arguments: str, fails: bool = False, cwd: Path = ROOT) -> str:
        """What a command of this environment prints."""
        return run(str(self.folder / "bin" / command), *arguments, fails=fails, cwd=cwd)


def run(*command: str, fails: bool = False, cwd: Path = ROOT, **variables: str) -> str:
    """What a command prints on both streams; raises `Failed` if it fails, or if it should and does
    not. Nothing of the checkout is on its path.
    """
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        command,
        cwd=cwd,
        env={**inherited, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if (ran.returncode != 0) != fails:
        how = "succeeded" if fails else f"failed ({ran.returncode})"
        raise Failed(f"{' '.join(command)} {how}:\n{ran.stdout[-3000:]}")
    return ran.stdout


def report(step: str, result: str) -> None:
    """One line for a step that passed."""
    print(f"ok  {step}: {result}", flush=True)
