"""`python -m release.walk`: try the first steps of a new user in a fresh clone with a new
environment.

`make demo`, `make smoke` in the place of the README's `make test`, the README's commands, the code
of the README, of both quickstarts and of the page on a measure of one's own, and one page in the
browser.
"""

from __future__ import annotations

import re
import shlex
import sys
import tempfile
import time
from pathlib import Path

from release.environment import ROOT, Environment, Failed, report, run

PAGES = ("README.md", "docs/five_minutes.md", "docs/llm_quickstart.md", "docs/own_measure.md")
BROWSER = "tests/viewer/test_browser.py"
FIRST_SCREEN = "test_the_first_screen_has_the_numbers_of_the_maps"
# What a command of the README needs that a clone does not have, or why it does not end.
LEFT_OUT = {
    "bert-base-uncased": "a model of the hub",
    "corpus.jsonl": "a corpus",
    "serve": "runs until it is stopped",
    "finetune": "takes minutes",
}


def main() -> int:
    """Every step, until one fails."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mixlens_walk_") as place:
        clone = Path(place) / "mixlens"
        try:
            run("git", "clone", "--quiet", str(ROOT), str(clone))
            report("clone", run("git", "log", "-1", "--format=%h %s", cwd=clone).strip())
            run("make", "demo", cwd=clone)
            report("make demo", "made an environment and ran the main job")
            smoke = re.findall(r".* passed.*", run("make", "smoke", cwd=clone))[-1]
            report("make smoke", f"{smoke} (in the place of make test)")
            environment = Environment(clone / ".venv")
            _commands(environment, clone)
            _pages(environment, clone)
        except Failed as failed:
            print(f"NO  {failed}", file=sys.stderr)
            return 1
    print(f"the walk took {(time.monotonic() - start) / 60:.0f} minutes")
    return 0


def _commands(environment: Environment, clone: Path) -> None:
    """Those in the README that need nothing but a clone."""
    readme = (clone / "README.md").read_text(encoding="utf-8")
    for line in re.findall(r"^mixlens .*", readme, re.MULTILINE):
        words = shlex.split(line, comments=True)
        reasons = [why for what, why in LEFT_OUT.items() if what in words]
        if reasons:
            report(shlex.join(words), f"NOT RUN: {reasons[0]}")
        else:
            environment.run(*words, cwd=clone)
            report(shlex.join(words), "ran")


def _pages(environment: Environment, clone: Path) -> None:
    for page in PAGES:
        name = Path(page).stem
        selection = f"test_programs_run_and_print_what_is_shown and {name}"
        output = environment.run(
            "python", "-m", "pytest", "tests/test_docs.py", "-k", selection, cwd=clone
        )
        report(page, output.strip().splitlines()[-1])
    output = environment.run("python", "-m", "pytest", BROWSER, "-k", FIRST_SCREEN, cwd=clone)
    report("one page in the browser", output.strip().splitlines()[-1])


if __name__ == "__main__":
    sys.exit(main())
