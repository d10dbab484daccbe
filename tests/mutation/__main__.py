"""`python -m tests.mutation`: seeded changes over all folders, and the tests that catch them.

Each change goes into a copy of the package. The tests that name the changed module run against the
copy, the closest first, until one fails. A change that no test notices is printed as SURVIVED.
`--count`, `--seed` and `--only` choose the changes; `--limit` is the time for one, in seconds.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import IO

from tests.mutation.changes import Change, changes_of

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "mixlens"
_LIBRARIES = ("torch", "transformers", "pytest", "hypothesis", "xarray", "pandas", "scipy.stats")
_LEFT_OUT = ("kernels/fused/", "runs/engines/on_ray.py")  # they need a GPU or a cluster


def drawn(count: int, seed: int) -> list[Change]:
    """Return changes from all folders in turn, and from different files while there are any."""
    draw = random.Random(seed)
    folders: dict[str, list[Path]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith(_LEFT_OUT):
            folders.setdefault(name.split("/")[0] if "/" in name else "", []).append(path)
    for paths in folders.values():
        draw.shuffle(paths)
    chosen: list[Change] = []
    while len(chosen) < count:
        for paths in folders.values():
            while paths and len(chosen) < count:
                path = paths.pop()
                if possible := changes_of(path.relative_to(ROOT), path.read_bytes()):
                    chosen.append(draw.choice(possible))
                    break
    return chosen


def select_tests(module: Path) -> Iterator[list[str]]:
    """Yield groups of test files, the closest to a module first."""
    parts = module.relative_to("src").with_suffix("").parts
    dotted, stem = ".".join(part for part in parts if part != "__init__"), parts[-1]
    folder = parts[1] if len(parts) > 2 else ""
    texts = {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
    }
    package, _, name = dotted.rpartition(".")
    imports = re.compile(
        rf"\b{re.escape(dotted)}\b|from {re.escape(package)} import [^\n]*\b{name}\b"
    )
    named = [path for path in texts if Path(path).stem == f"test_{stem}"]
    importing = [path for path, text in texts.items() if imports.search(text)]
    spoken = [path for path, text in texts.items() if re.search(rf"\b{stem}\b", text)]
    nearby = [path for path in texts if folder and path.startswith(f"tests/{folder}/")]
    done: set[str] = set()
    for group in (named, importing, nearby, spoken):
        fresh = [path for path in group if path not in done]
        done.update(fresh)
        if fresh:
            yield sorted(fresh, key=lambda path: len(texts[path]))
    yield ["-m", "smoke", "tests"]


def killer_of(change: Change, copied: Path, limit: float) -> str | None:
    """Return the test that fails with a change and passes without it, or None if none does in
    time.
    """
    place = copied / change.path.relative_to("src")
    before = place.read_bytes()
    deadline = time.monotonic() + limit
    for tests in select_tests(change.path):
        while (left := deadline - time.monotonic()) > 5:
            place.write_bytes(change.applied(before))
            try:
                failed = _first_failure(tests, copied, left)
            finally:
                place.write_bytes(before)
            if failed is None:
                break
            if "::" not in failed or _first_failure([failed], copied, limit) is None:
                return failed
            tests = [*tests, "--deselect", failed]  # it fails anyway
    return None


def _first_failure(tests: list[str], copied: Path, limit: float) -> str | None:
    """Run tests in a fork of this process, which has imported the large libraries already."""
    with tempfile.TemporaryFile("w+") as shown:
        process = get_context("fork").Process(target=_run_tests, args=(tests, copied, shown))
        process.start()
        process.join(limit)
        if process.is_alive():
            process.kill()
            process.join()
            return None
        shown.seek(0)
        failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", shown.read(), re.M)
    if process.exitcode in (0, 5):  # all passed, or there was none
        return None
    return failed[0] if failed else f"pytest ended with {process.exitcode}"


def _run_tests(tests: list[str], copied: Path, shown: IO[str]) -> None:
    import pytest

    for number in (1, 2):
        os.dup2(shown.fileno(), number)
    os.chdir(ROOT)
    os.environ["COLUMNS"] = "1000"  # pytest cuts long names off
    os.environ["PYTHONPATH"] = os.pathsep.join((str(copied), str(ROOT)))
    sys.path[:0] = [str(copied), str(ROOT)]
    sys.dont_write_bytecode = True
    code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests])
    sys.stdout.flush()
    os._exit(int(code))


def main() -> int:
    """Try all changes and count those that were caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=300)
    parser.add_argument("--only", type=int, nargs="+", help="numbers of changes, from 0")
    parser.add_argument("--list", action="store_true", help="print the changes and stop")
    given = parser.parse_args()
    changes = list(enumerate(drawn(given.count, given.seed)))
    if given.only is not None:
        changes = [pair for pair in changes if pair[0] in given.only]
    survived = 0
    for name in () if given.list else _LIBRARIES:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory(prefix="mixlens_mutation_") as folder:
        copied = Path(folder)
        if not given.list:
            shutil.copytree(
                SOURCE, copied / "mixlens", ignore=shutil.ignore_patterns("__pycache__")
            )
        for number, change in changes:
            if given.list:
                print(f"{number} {change}")
                continue
            killer = killer_of(change, copied, given.limit)
            survived += killer is None
            print(f"{number} {change}\n    {killer or 'SURVIVED'}", flush=True)
    if not given.list:
        print(f"{len(changes) - survived} of {len(changes)} changes were caught")
    return int(survived > 0)


if __name__ == "__main__":
    sys.exit(main())
