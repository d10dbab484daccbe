"""`python -m release.coverage FILE`: list the branches of the package that no test runs.

FILE is the JSON report of coverage.py, which `make coverage` writes. coverage.py itself counts
lines and branches together, so that many lines hide a branch that is never taken.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from release.environment import Failed

LEAST = 95.0  # per cent of the branches


def verdict(files: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the branches that no test runs, by file. Raise `Failed` if there are too many."""
    count = sum(each["summary"]["num_branches"] for each in files.values())
    missing = {path: each["missing_branches"] for path, each in files.items()}
    missed = sum(map(len, missing.values()))
    share = 100 * (1 - missed / count)
    lines = [f"{share:.2f} % of {count} branches are run, {missed} are not"]
    for path, branches in sorted(missing.items(), key=lambda item: (-len(item[1]), item[0])):
        if branches:
            lines.append(f"{path}: " + ", ".join(f"{line} to {_end(to)}" for line, to in branches))
    if share < LEAST:
        raise Failed("\n".join([*lines, f"fewer than {LEAST:g} % of the branches are run"]))
    return "\n".join(lines)


def _end(line: int) -> str:
    """Return a line number as text. A negative one is the end of a function in coverage.py."""
    return str(line) if line > 0 else "the end"


if __name__ == "__main__":
    try:
        print(verdict(json.loads(Path(sys.argv[1]).read_text())["files"]))
    except Failed as failed:
        sys.exit(str(failed))
