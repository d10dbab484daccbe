"""`python -m tests.fuzz [--minutes 10] [--only NAME] [--engine hypothesis|atheris]`: every target
for so many minutes. A case that raises what is not ours is printed, made as small as it can be, and
the status is 1. `--minutes 0` takes a moment: what was found before, and a few new cases.

Atheris lets the code that a case reaches decide which cases follow. It is used if it is installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


def main() -> int:
    """Runs the targets one after the other, each in a process of its own."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="for each target")
    parser.add_argument("--only", action="append", help="a target, once or several times")
    parser.add_argument("--engine", choices=["hypothesis", "atheris"])
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    engine = given.engine or _engine()
    if given.minutes == 0:
        return _glance(given.only)
    if given.here:
        return _fuzz(given.only[0], given.minutes * 60, engine)
    from tests.fuzz.targets import TARGETS

    failed = []
    for name in given.only or TARGETS:
        here = ["--here", "--only", name, "--minutes", str(given.minutes), "--engine", engine]
        if subprocess.run([sys.executable, "-m", "tests.fuzz", *here], check=False).returncode:
            failed.append(name)
    print(f"failed: {', '.join(failed)}" if failed else "no exception but ours")
    return int(bool(failed))


def _glance(only: list[str] | None) -> int:
    from tests.fuzz.targets import TARGETS, searching

    for name in only or TARGETS:
        searching(TARGETS[name], 5, derandomize=True)()
        print(f"{name}: no exception but ours", flush=True)
    return 0


def _engine() -> str:
    if importlib.util.find_spec("atheris") is not None:
        return "atheris"
    print("Atheris is not installed (pip install atheris): Hypothesis alone", file=sys.stderr)
    return "hypothesis"


def _fuzz(name: str, seconds: float, engine: str) -> int:
    return _with_atheris(name, seconds) if engine == "atheris" else _with_hypothesis(name, seconds)


def _with_hypothesis(name: str, seconds: float) -> int:
    from hypothesis import seed

    from tests.fuzz.targets import TARGETS, searching

    end, runs, examples = time.monotonic() + seconds, 0, 100
    target = searching(TARGETS[name], examples)
    while time.monotonic() < end:
        seed(time.time_ns())(target)()
        runs += 1
    print(f"{name}: {runs * examples} cases by Hypothesis, no exception but ours")
    return 0


def _with_atheris(name: str, seconds: float) -> int:
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["mixlens"]):
        from tests.fuzz.targets import TARGETS, searching

    target: Any = searching(TARGETS[name], 1)
    limit = [f"-max_total_time={max(1, int(seconds))}", "-rss_limit_mb=8192", "-timeout=60"]
    with tempfile.TemporaryDirectory() as place:
        kept = [f"-artifact_prefix={place}/", "-print_final_stats=1", "-len_control=0"]
        atheris.Setup([name, *limit, *kept], target.hypothesis.fuzz_one_input)
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
