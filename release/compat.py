"""`python -m release.compat`: the environments that are supported, built and tried.

The oldest and the newest torch and transformers of the ranges in `pyproject.toml`, with each Python
from the oldest on. The conformance suite and the adapter test run in each. The table in
`docs/support.md` is written from what happened. `--share` takes everything but transformers from
the environment that runs this command, to save time.
"""

from __future__ import annotations

import argparse
import platform
import re
import shutil
import sys
import sysconfig
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

from release.environment import ROOT, Environment, Failed

PAGE = ROOT / "docs" / "support.md"
PLACE = ROOT / "build" / "compat"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
TESTS = ("tests/conformance", "tests/recording/test_adapter.py")
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "beartype", "pyyaml", "sentencepiece")
VERSIONS = "import torch, transformers; print(torch.__version__, transformers.__version__)"
HEAD = "| Python | torch | transformers | result |\n|---|---|---|---|\n"


@dataclass(frozen=True)
class Combination:
    """One environment: "oldest" or "newest" of what the declared ranges allow."""

    python: str
    torch: str
    transformers: str

    @property
    def name(self) -> str:
        """As it is chosen by `--only`."""
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
    """The Python of a version: of this process, on the path, or one that pyenv keeps."""
    if version == ".".join(platform.python_version_tuple()[:2]):
        return sys.executable
    kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    return shutil.which(f"python{version}") or (str(kept[-1]) if kept else None)


def tried(wanted: Combination, tests: list[str], *, share: bool) -> tuple[str, str, str]:
    """The versions of torch and transformers, and what the tests said."""
    python = interpreter(wanted.python)
    if python is None:
        return "", "", f"not run: no Python {wanted.python} was found"
    try:
        environment = Environment.new(PLACE / wanted.name, python)
        _fill(environment, wanted, share=share)
        versions = environment.run("python", "-c", VERSIONS).split()[-2:]
    except Failed as failed:
        return "", "", f"not run: {str(failed).splitlines()[-1][:120]}"
    try:
        shown = environment.run("python", "-m", "pytest", "-n", "2", *tests)
    except Failed as failed:
        shown = str(failed)
        print(shown, file=sys.stderr)
    summary = [line for line in shown.splitlines() if re.search(r"\d+ (passed|failed|error)", line)]
    ended = re.sub(r" in [\d.:()s ]+$", "", summary[-1].strip("= ")) if summary else "no result"
    return versions[0], versions[1], f"{ended} ({time.strftime('%Y-%m-%d')}, {' '.join(tests)})"


def _fill(environment: Environment, wanted: Combination, *, share: bool) -> None:
    transformers = requirement("transformers", wanted.transformers)
    if share:
        own = sysconfig.get_paths(vars={"base": str(environment.folder)})["purelib"]
        environment.install(transformers)
        (Path(own) / "shared.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
        (Path(own) / "source.pth").write_text(str(ROOT / "src") + "\n")
        return
    environment.install(requirement("torch", wanted.torch))
    environment.install(f"{ROOT}[eval]", transformers, requirement("torch", wanted.torch), *TOOLS)


def with_row(page: str, row: str) -> str:
    """The page with a row in its table, in the place of one for the same environment."""
    before, table = page.split(HEAD)
    rows = {_environment(line): line for line in [*table.splitlines(), row]}
    return before + HEAD + "".join(f"{rows[each]}\n" for each in sorted(rows))


def _environment(row: str) -> tuple[str, ...]:
    """Python, and whether torch and transformers are the oldest, the newest or as installed."""
    python, *others = (cell.strip() for cell in row.strip("|").split("|")[:3])
    return (python, *(re.sub(r".*\((.*)\)", r"\1", cell) for cell in others))


def main() -> int:
    """Builds and tries what is wanted."""
    parser = argparse.ArgumentParser(prog="python -m release.compat", description=__doc__)
    names = [each.name for each in COMBINATIONS]
    parser.add_argument("--only", action="append", choices=names)
    parser.add_argument("--share", action="store_true")
    parser.add_argument("--tests", nargs="+", default=list(TESTS))
    given = parser.parse_args()
    bad = False
    for wanted in COMBINATIONS:
        if given.only is None or wanted.name in given.only:
            torch, transformers, result = tried(wanted, given.tests, share=given.share)
            which = "as installed" if given.share else wanted.torch
            versions = f"{torch} ({which}) | {transformers} ({wanted.transformers})"
            row = f"| {wanted.python} | {versions} | {result} |"
            print(row, flush=True)
            PAGE.write_text(with_row(PAGE.read_text(encoding="utf-8"), row), encoding="utf-8")
            bad |= any(word in result for word in ("failed", "error", "no result"))
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
