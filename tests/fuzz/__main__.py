"""`python -m tests.fuzz [--minutes 10] [--jobs 1] [--only NAME] [--engine hypothesis|atheris]`:
every target for so many minutes. A case that raises what is not ours is made as small as it can be,
and the status is 1. What a target printed and the cases are in `build/fuzz`, or in the folder that
`--keep` names. `--minutes 0` takes a moment: what was found before, and a few new cases.

Atheris lets the code that a case reaches decide which cases follow. It is used if it is installed.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import itertools
import os
import subprocess
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
KEPT = Path("build") / "fuzz"


def main() -> int:
    """Runs each target in a process of its own, so many at a time."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="for each target")
    parser.add_argument("--jobs", type=int, default=1, help="targets at a time")
    parser.add_argument("--only", action="append", help="a target, once or several times")
    parser.add_argument("--engine", choices=["hypothesis", "atheris"])
    parser.add_argument("--keep", type=Path, default=KEPT, help="a folder for logs and cases")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.minutes == 0:
        return _glance(given.only)
    given.engine = given.engine or _engine()
    if given.here:
        return _fuzz(given.only[0], given.minutes * 60, given.engine, given.keep)
    from tests.fuzz.targets import TARGETS

    given.keep.mkdir(parents=True, exist_ok=True)
    names = given.only or list(TARGETS)
    with ThreadPoolExecutor(given.jobs) as pool:
        passed = list(pool.map(lambda name: _in_a_process(name, given), names))
    failed = [name for name, well in zip(names, passed, strict=True) if not well]
    print(f"failed: {', '.join(failed)}" if failed else "no exception but ours")
    return int(bool(failed))


def _in_a_process(name: str, given: argparse.Namespace) -> bool:
    """Runs one target. Atheris does not say by its status that cases were found: files do."""
    for old in given.keep.glob(f"{name}-*"):
        old.unlink()
    command = [sys.executable, "-m", "tests.fuzz", "--here", "--only", name]
    command += [
        "--minutes",
        str(given.minutes),
        "--engine",
        given.engine,
        "--keep",
        str(given.keep),
    ]
    with (given.keep / f"{name}.log").open("w") as log:
        status = subprocess.run(command, check=False, stdout=log, stderr=log).returncode
    cases = len(list(given.keep.glob(f"{name}-*")))
    print(f"{name}: {cases} found, status {status}, {log.name}", flush=True)
    return status == 0 and cases == 0


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


def _fuzz(name: str, seconds: float, engine: str, keep: Path) -> int:
    search = _with_atheris if engine == "atheris" else _with_hypothesis
    return search(name, seconds, keep)


def _write_down(name: str, failure: BaseException, keep: Path) -> None:
    """Keeps the smallest case of each failure."""
    frames = traceback.extract_tb(failure.__traceback__)
    place = repr([type(failure), *((frame.filename, frame.lineno) for frame in frames[-3:])])
    case = keep / f"{name}-{hashlib.sha256(place.encode()).hexdigest()[:12]}.txt"
    shown = "".join(traceback.format_exception(failure)).encode(errors="backslashreplace")
    if not case.exists() or len(shown) < case.stat().st_size:
        case.write_bytes(shown)


def _with_hypothesis(name: str, seconds: float, keep: Path) -> int:
    from hypothesis import seed

    from tests.fuzz.targets import TARGETS, searching

    end, cases = time.monotonic() + seconds, itertools.count()
    target: Any = searching(TARGETS[name], 100, found_before=False)
    inner = target.hypothesis.inner_test

    def counted(**case: Any) -> None:
        next(cases)
        inner(**case)

    target.hypothesis.inner_test = counted
    while time.monotonic() < end:
        try:
            seed(time.time_ns())(target)()
        except Exception as failure:
            _write_down(name, failure, keep)
    print(f"{name}: {next(cases)} cases by Hypothesis", flush=True)
    return 0


def _with_atheris(name: str, seconds: float, keep: Path) -> int:
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["mixlens"]):
        from tests.fuzz.targets import TARGETS, searching

        target: Any = searching(TARGETS[name], 5)
        inner = target.hypothesis.inner_test

        def noted(**case: Any) -> None:
            try:
                inner(**case)
            except Exception as failure:
                failure.add_note(f"{name}(**{case!r})")
                _write_down(name, failure, keep)

        target.hypothesis.inner_test = noted
        target()  # modules that are imported late are imported now
    limits = [f"-max_total_time={max(1, int(seconds))}", "-rss_limit_mb=8192", "-timeout=120"]
    output = [f"-artifact_prefix={keep}/{name}-", "-print_final_stats=1", "-len_control=0"]
    atheris.Setup([name, *limits, *output], target.hypothesis.fuzz_one_input)
    atheris.Fuzz()  # and does not come back
    return 0


if __name__ == "__main__":
    sys.exit(main())
