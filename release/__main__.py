"""`python -m release`: the checklist before a release. Each line is a step that passed.

What it makes is in `dist/`: a wheel, an sdist and a bill of materials (CycloneDX). It needs the
extra `release`. The tests and the site have commands of their own: `make check test docs walk`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

import mixlens
from release.audit import audit
from release.environment import ROOT, Environment, Failed, report, run

DIST = ROOT / "dist"
MOST_BYTES = 20 * 10**6
LEAST_TYPED = 95.0
TEXT = "The keys to the cabinet [MASK] here."
EXTRAS = {  # a command that needs each extra
    "web": ("serve",),
    "corpus": ("run", "texts.txt", "--measure", "attention", "--out", "results"),
    "plot": ("map", TEXT, "--figure", "map.svg"),
    "eval": ("context-cite", "One. Two.", "--query", "What?", "--answer", "One."),
}


def main() -> int:
    """Run every step until one fails."""
    argparse.ArgumentParser(prog="python -m release", description=__doc__).parse_args()
    try:
        _version()
        wheel = _build()
        _contents(wheel)
        with tempfile.TemporaryDirectory(prefix="mixlens_release_") as place:
            core = Environment.new(Path(place) / "core")
            _core(wheel, core, Path(place))
            _bill(core)
        _types()
        report("audit", audit())
    except Failed as failed:
        print(f"NO  {failed}", file=sys.stderr)
        return 1
    print(f"mixlens {mixlens.__version__} can be released: {', '.join(_files())}")
    return 0


def _version() -> None:
    """Check that all files have the same version."""
    version = mixlens.__version__
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    if cited is None or cited[1] != version:
        raise Failed(f"CITATION.cff does not name version {version}")
    if f"## [{version}]" not in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"):
        raise Failed(f"CHANGELOG.md has no section [{version}]")
    report("version", f"{version}, in CITATION.cff and CHANGELOG.md too")


def _build() -> Path:
    """Build a wheel and an sdist twice, from the last commit alone."""
    shutil.rmtree(DIST, ignore_errors=True)
    hashes = []
    for number in range(2):
        with tempfile.TemporaryDirectory(prefix="mixlens_build_") as place:
            tree, out = Path(place) / "tree", Path(place) / "dist"
            run("git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(tree))
            when = run("git", "log", "-1", "--format=%ct", cwd=tree).strip()
            build = (sys.executable, "-m", "build", "--outdir", str(out), str(tree))
            run(*build, cwd=tree, SOURCE_DATE_EPOCH=when)
            hashes.append({file.name: _digest(file) for file in out.iterdir()})
            if number == 0:
                shutil.copytree(out, DIST)
    if hashes[0] != hashes[1]:
        raise Failed(f"two builds differ: {hashes}")
    for name, digest in sorted(hashes[0].items()):
        report("build", f"{name}, twice the same: sha256 {digest}")
    return next(DIST.glob("*.whl"))


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _contents(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for needed in ("mixlens/py.typed", "mixlens/bundled/masked/model.safetensors"):
        if needed not in names:
            raise Failed(f"{wheel.name} has no {needed}")
    strange = [name for name in names if not name.startswith(("mixlens/", "mixlens-"))]
    if strange:
        raise Failed(f"{wheel.name} holds {strange[0]}")
    size = wheel.stat().st_size
    if size > MOST_BYTES:
        raise Failed(f"{wheel.name} has {size:,} bytes, more than {MOST_BYTES:,}")
    report("wheel", f"{len(names)} files, {size / 10**6:.1f} MB")


def _core(wheel: Path, core: Environment, place: Path) -> None:
    """Check the wheel without extras, and the errors that name a missing extra."""
    core.install("torch", constrained=True)
    core.install(str(wheel), constrained=True)
    printed = core.run("mixlens", "--version", cwd=place)
    if printed.strip() != mixlens.__version__:
        raise Failed(f"the wheel says that it is version {printed}")
    compared = core.run("mixlens", "compare", TEXT, "--json", cwd=place)
    scores = json.loads(compared[compared.index("{") :])["scores"]
    report("core", f"`mixlens compare` in an empty environment: {len(scores)} measures")
    (place / "texts.txt").write_text("The dogs bark.\n")
    for extra, command in EXTRAS.items():
        answer = core.run("mixlens", *command, fails=True, cwd=place)
        if f"mixlens[{extra}]" not in answer:
            raise Failed(f"mixlens {' '.join(command)} does not name the extra {extra}: {answer}")
    report("extras", f"named if they are missing: {', '.join(EXTRAS)}")


def _bill(core: Environment) -> None:
    """Write a CycloneDX bill of materials of the core installation."""
    bill = DIST / f"mixlens-{mixlens.__version__}.cdx.json"
    tool = str(Path(sys.executable).parent / "cyclonedx-py")
    how = ("--output-reproducible", "--of", "JSON", "-o", str(bill))
    run(tool, "environment", *how, core.python)
    parts = json.loads(bill.read_text(encoding="utf-8"))["components"]
    report("bill of materials", f"{bill.name}: {len(parts)} packages")


def _types() -> None:
    """Check the fraction of public names whose type pyright knows."""
    folder = Path(sys.executable).parent
    options = ("--verifytypes", "mixlens", "--ignoreexternal", "--outputjson")
    # With --verifytypes, pyright ignores --pythonpath and asks the first Python on the path.
    path = os.pathsep.join((str(folder), os.environ["PATH"]))
    printed = run(
        str(folder / "pyright"), *options, fails=True, PYTHONPATH=str(ROOT / "src"), PATH=path
    )
    score = 100 * float(json.loads(printed)["typeCompleteness"]["completenessScore"])
    if score < LEAST_TYPED:
        raise Failed(f"pyright knows {score:.1f} % of the types, less than {LEAST_TYPED} %")
    report("types", f"pyright knows {score:.1f} % of the public names")


def _files() -> list[str]:
    return sorted(path.name for path in DIST.iterdir())


if __name__ == "__main__":
    sys.exit(main())
