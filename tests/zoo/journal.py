"""What was found in each model of the zoo: one JSON line each, the latest of a class counts."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Finding = dict[str, Any]
"""type, class, verdict (verified, part, refused, exception), reason, and what the checks found:
their largest differences, violations, and errors that are not ours; and of the general rules how
many cases held, and why others were left out.
"""


def findings(path: Path) -> dict[str, Finding]:
    """Class name -> its latest line."""
    if not path.exists():
        return {}
    lines = (json.loads(line) for line in path.read_text().splitlines())
    return {line["class"]: line for line in lines}


def append(path: Path, finding: Finding) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(finding) + "\n")


def summary(findings: Iterable[Finding]) -> str:
    """Counts, and every violation and exception by name."""
    findings = list(findings)
    verdicts = ("verified", "part", "refused", "exception")
    counts = {verdict: sum(line["verdict"] == verdict for line in findings) for verdict in verdicts}
    checked = [line for line in findings if line.get("checks")]
    lines = [
        f"{len(findings)} classes: {counts['verified']} verified,"
        f" {counts['part']} partially supported, {counts['refused']} refused,"
        f" {counts['exception']} exceptions",
        f"{sum(len(line['checks']) for line in checked)} independent checks on {len(checked)}"
        f" classes, {sum(len(line.get('violations', [])) for line in findings)} violations,"
        f" {sum(len(line.get('foreign', [])) for line in findings)} errors that are not ours",
    ]
    tried = [rule for line in findings for rule in line.get("held", {})]
    lines += [
        f"rule {rule}: cases held on {tried.count(rule)} classes" for rule in sorted({*tried})
    ]
    reasons = Counter(
        f"rule {case.partition(',')[0]} left out: {_general(why, line['class'])[:90]}"
        for line in findings
        for case, why in line.get("skipped", {}).items()
    )
    lines += [f"{count} cases of {reason}" for reason, count in sorted(reasons.items())]
    for line in findings:
        shown = [*line.get("violations", []), *line.get("foreign", [])]
        lines += [f"  {line['class']}: {said}" for said in shown]
        if line["verdict"] == "exception":
            lines.append(f"  {line['class']}: {line['reason']}")
    return "\n".join(lines)


def by_reason(findings: Iterable[Finding], width: int = 90) -> str:
    """Refusals with the same wording together, the most frequent first."""
    groups: dict[str, list[str]] = {}
    for line in findings:
        if line["verdict"] in ("refused", "exception"):
            said = _general(line["reason"], line["class"])
            groups.setdefault(said[:width], []).append(line["class"])
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    return "\n".join(f"{len(names):4d}  {said}\n      {' '.join(names)}" for said, names in ordered)


def _general(reason: str, name: str) -> str:
    """A reason without what is of one class alone."""
    said = re.sub(r"`[^`]*`", "`…`", reason)
    return re.sub(r"\d[\d.,e+-]*", "#", said.replace(name.partition(" (")[0], "…"))
