"""`python -m release.audit`: list known vulnerabilities of the installed packages, by pip-audit.

pip-audit asks a service. If that cannot be reached, or knows none of the packages, this says so and
does not fail.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from release.environment import Failed

COMMAND = ("-m", "pip_audit", "--skip-editable", "--format", "json", "--timeout", "15")


def audit() -> str:
    """Return a report, or raise `Failed` for packages with known vulnerabilities."""
    ran = subprocess.run([sys.executable, *COMMAND], capture_output=True, text=True, check=False)
    try:
        return verdict(json.loads(ran.stdout)["dependencies"])
    except ValueError:
        lines = ran.stderr.strip().splitlines() or ["no output"]
        return f"NOT DONE: pip-audit could not ask its service ({lines[-1][:200]})"


def verdict(packages: Sequence[Mapping[str, Any]]) -> str:
    """Return a report that lists skipped packages, which the service does not know."""
    checked = [each for each in packages if "skip_reason" not in each]
    if not checked:
        return f"NOT DONE: the service of pip-audit knows none of {len(packages)} packages"
    weak = {
        f"{each['name']} {each['version']}": [
            vulnerability["id"] for vulnerability in each["vulns"]
        ]
        for each in checked
        if each["vulns"]
    }
    if weak:
        raise Failed(f"packages with known weaknesses: {weak}")
    unknown = len(packages) - len(checked)
    return f"{len(checked)} packages without known weaknesses, {unknown} unknown to the service"


if __name__ == "__main__":
    try:
        print(f"audit: {audit()}")
    except Failed as failed:
        sys.exit(str(failed))
