"""Run every target for a moment, and all cases that failed before."""

from __future__ import annotations

import subprocess
import sys

from tests.fuzz.targets import TARGETS


def test_no_exception_but_ours() -> None:
    """In a process of its own: here, types are checked before mixlens can say what is wrong."""
    command = [sys.executable, "-m", "tests.fuzz", "--minutes", "0"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-5000:]
    assert ran.stdout.count("no exception but ours") == len(TARGETS)
