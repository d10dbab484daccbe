"""docs/coverage.md: what is measured on each model type of the zoo, and what is refused and why."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tests.zoo.journal import Finding

_HEAD = """# Coverage

What mixlens measures on the architectures of transformers. `make zoo` wrote this page: it builds
{classes} model classes of {types} model types from transformers' own test configurations, with
random weights, takes each apart on its own input, and compares with the model itself.

* **Verified**: {verified} classes. The parts of every layer add up to what the model computes.
* **In part**: {part} classes. What is proved is measured. What is not is named, and left out.
* **Refused**: {refused} classes. Nothing is reported rather than a wrong number.
* **Independent checks**: {checks} made, {violations} violations. Attention weights are compared
  with the model's own, Value Zeroing with a hook on the model's value projection, at the given
  length and at 40 tokens. Chosen targets are compared with full maps, one row with two, and a
  padded row with the same row alone. The model must be the same before and after.

Measures that a structure does not allow are refused with a reason: `mixlens doctor` lists them.

| type | class | sites | what is left out or refused, and why |
|---|---|---|---|
"""


def written(findings: Iterable[Finding], path: Path) -> None:
    """Writes the page."""
    lines = sorted(findings, key=lambda line: (line["type"], line["class"]))
    counts = {
        verdict: sum(line["verdict"] == verdict for line in lines)
        for verdict in ("verified", "part")
    }
    head = _HEAD.format(
        classes=len(lines),
        types=len({line["type"] for line in lines}),
        **counts,
        refused=len(lines) - sum(counts.values()),
        checks=sum(len(line.get("checks", ())) for line in lines),
        violations=sum(len(line.get("violations", ())) for line in lines),
    )
    path.write_text(head + "".join(_row(line) for line in lines))


def _row(line: Finding) -> str:
    sites = ", ".join(line.get("sites", [])) or "none"
    reasons = [line.get("reason", "")]
    reasons += [f"{where}: {why}" for where, why in line.get("left_out", {}).items()]
    said = " ".join(reason for reason in reasons if reason)
    said = re.sub(r"\s+", " ", said).replace("|", "\\|").replace("<", "&lt;")
    return f"| {line['type']} | {line['class']} | {sites} | {said[:400]} |\n"
