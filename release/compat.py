"""`python -m release.compat`: build and test the supported environments.

The oldest and the newest torch and transformers of the ranges in `pyproject.toml`, with each Python
from the oldest on. The conformance suite and the adapter test run in each. The table in
`docs/support.md` is written from what happened. Each environment is removed after its tests, since
torch with CUDA takes several GB. `--share` takes everything but transformers from the environment
that runs this command, to save time. `--here` builds nothing and tries that environment as it is.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
import shutil
import sys
import sysconfig
import tempfile
import time
import tomllib
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from release.environment import ROOT, Environment, Failed, run

PAGE = ROOT / "docs" / "support.md"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
TESTS = ("tests/conformance", "tests/recording/test_adapter.py")
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "beartype", "pyyaml", "sentencepiece")
VERSIONS = "import torch, transformers; print(torch.__version__, transformers.__version__)"
HEAD = "| Python | torch | transformers | result |\n|---|---|---|---|\n"


@dataclass(frozen=True)
class Combination:
    """One environment with the "oldest" or the "newest" versions of the declared ranges."""

    python: str
    torch: str
    transformers: str

    @property
    def name(self) -> str:
        """Return the name for `--only`."""
        return f"{self.python}-torch-{self.torch}-transformers-{self.transformers}"


COMBINATIONS = (
    Combination(PYTHONS[0], "oldest", "oldest"),
    Combination(PYTHONS[0], "newest", "oldest"),
    *(Combination(python, "newest", "newest") for python in PYTHONS),
)


def requirement(package: str, which: str) -> str:
    """The oldest version of the declared range, or the range itself, of which pip takes the
    newest.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = next(each for each in project["dependencies"] if re.match(rf"{package}\W", each))
    if which == "newest":
        return str(declared)
    lowest = re.search(r">=([\d.]+)", declared)
    assert lowest is not None
    return f"{package}=={lowest[1]}.*"


def interpreter(version: str) -> str | None:
    """Return the Python of a version: that of this process, one of pyenv, or one on the path."""
    if version == ".".join(platform.python_version_tuple()[:2]):
        return sys.executable
    installed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    return str(installed[-1]) if installed else shutil.which(f"python{version}")


def tried(combination: Combination, options: argparse.Namespace) -> tuple[str, str, str]:
    """The versions of torch and transformers, and the result of the tests."""
    python = interpreter(combination.python)
    if python is None:
        return "", "", f"not run: no Python {combination.python} was found"
    with tempfile.TemporaryDirectory(prefix="mixlens_compat_") as place:
        try:
            environment = Environment.new(Path(place), python)
            _fill(environment, combination, share=options.share, largest=options.largest)
            return tested(partial(environment.run, "python"), options)
        except Failed as failed:
            return "", "", f"not run: {str(failed).splitlines()[-1].strip()[:120]}"


def tested(python: Callable[..., str], options: argparse.Namespace) -> tuple[str, str, str]:
    """Run the tests. Return the versions of torch and transformers, and the result."""
    versions = python("-c", VERSIONS).split()[-2:]
    try:
        output = python("-m", "pytest", "-n", str(options.jobs), *options.tests)
    except Failed as failed:
        output = str(failed)
        print(output, file=sys.stderr)
    summary = [
        line for line in output.splitlines() if re.search(r"\d+ (passed|failed|error)", line)
    ]
    ended = re.sub(r" in [\d.:()s ]+$", "", summary[-1].strip("= ")) if summary else "no result"
    when = time.strftime("%Y-%m-%d")
    return versions[0], versions[1], f"{ended} ({when}, {' '.join(options.tests)})"


def _fill(
    environment: Environment, combination: Combination, *, share: bool, largest: float
) -> None:
    transformers = requirement("transformers", combination.transformers)
    if share:
        site_packages = sysconfig.get_paths(vars={"base": str(environment.folder)})["purelib"]
        environment.install(transformers)
        (Path(site_packages) / "shared.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
        (Path(site_packages) / "source.pth").write_text(str(ROOT / "src") + "\n")
        return
    torch = requirement("torch", combination.torch)
    size = gigabytes(environment, torch) if largest < math.inf else 0.0
    if size > largest:
        raise Failed(f"{torch} is a download of {size:.1f} GB, more than the {largest:g} allowed")
    environment.install(torch)
    environment.install(f"{ROOT}[eval,corpus]", transformers, torch, *TOOLS)


def gigabytes(environment: Environment, package: str) -> float:
    """Return the size of pip's downloads for a package and its dependencies, in gigabytes."""
    report = environment.folder / "download.json"
    how = ("--dry-run", "--quiet", "--report", str(report))
    environment.run("python", "-m", "pip", "install", *how, package)
    parts = json.loads(report.read_text(encoding="utf-8"))["install"]
    sizes = []
    for address in (part["download_info"]["url"] for part in parts):
        if address.startswith("https:"):
            request = urllib.request.Request(address, method="HEAD")
            with urllib.request.urlopen(request, timeout=60) as answer:
                sizes.append(int(answer.headers["Content-Length"]))
    return sum(sizes) / 1e9


def with_row(page: str, row: str) -> str:
    """Return the page with a line for an environment, which replaces an earlier one."""
    before, table = page.split(HEAD)
    rows = {_environment(line): line for line in [*table.splitlines(), row]}
    return before + HEAD + "".join(f"{rows[each]}\n" for each in sorted(rows))


def _environment(row: str) -> tuple[str, ...]:
    """Python, and whether torch and transformers are the oldest or the newest; versions that are
    neither count themselves.
    """
    python, *others = (cell.strip() for cell in row.strip("|").split("|")[:3])
    return (python, *(re.sub(r".*\((oldest|newest)\)", r"\1", cell) for cell in others))


def main() -> int:
    """Build and test the requested environments."""
    parser = argparse.ArgumentParser(prog="python -m release.compat", description=__doc__)
    names = [each.name for each in COMBINATIONS]
    parser.add_argument("--only", action="append", choices=names)
    parser.add_argument("--share", action="store_true")
    parser.add_argument("--here", action="store_true")
    parser.add_argument("--largest", type=float, default=math.inf, help="download of torch, in GB")
    parser.add_argument("--jobs", type=int, default=2, help="tests at a time")
    parser.add_argument("--tests", nargs="+", default=list(TESTS))
    options = parser.parse_args()
    results = []
    if options.here:
        run_here = partial(run, sys.executable, PYTHONPATH=os.environ.get("PYTHONPATH", ""))
        result = tested(run_here, options)
        python = ".".join(platform.python_version_tuple()[:2])
        results.append(_written(Combination(python, "as installed", "as installed"), result))
    for combination in () if options.here else COMBINATIONS:
        if options.only is None or combination.name in options.only:
            named = replace(combination, torch="as installed") if options.share else combination
            results.append(_written(named, tried(combination, options)))
    return int(any(re.search(r"\d (failed|error)|no result", each) for each in results))


def _written(combination: Combination, result: tuple[str, str, str]) -> str:
    """Write a line into the page."""
    torch, transformers, verdict = result
    cells = (f"{torch} ({combination.torch})", f"{transformers} ({combination.transformers})")
    row = f"| {' | '.join((combination.python, *(cell.strip() for cell in cells), verdict))} |"
    print(row, flush=True)
    PAGE.write_text(with_row(PAGE.read_text(encoding="utf-8"), row), encoding="utf-8")
    return verdict


if __name__ == "__main__":
    sys.exit(main())
