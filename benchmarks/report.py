"""Report figures next to their limits: as a table, as JSON, and against the last commit."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "performance.md"


@dataclass(frozen=True)
class Figure:
    """One number with its bar. `key` names it in the results."""

    key: str
    value: float
    bar: float | None = None
    at_least: bool = False  # True: the bar is a floor (a speed-up); False: a ceiling (a cost)
    unit: str = ""
    tracked: bool = True  # False: rounding, which changes from run to run

    @property
    def passed(self) -> bool | None:
        if self.bar is None:
            return None
        return self.value >= self.bar if self.at_least else self.value <= self.bar

    @property
    def shown(self) -> str:
        return f"{number(self.value)}{self.unit}"

    @property
    def bar_shown(self) -> str:
        if self.bar is None:
            return ""
        return f"{'≥' if self.at_least else '≤'} {number(self.bar)}{self.unit}"

    @property
    def verdict(self) -> str:
        return {None: "", True: "pass", False: "MISS"}[self.passed]


def number(value: float) -> str:
    if value != 0 and abs(value) < 1e-3:
        return f"{value:.1e}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns also line up in a terminal."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        return (
            "| "
            + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
            + " |"
        )

    return "\n".join(
        [
            line(header),
            "|" + "|".join("-" * (width + 2) for width in widths) + "|",
            *(line(row) for row in rows),
        ]
    )


# ------------------------------------------------------------------------------------ circumstances


def circumstances(command: str, **more: Any) -> dict[str, Any]:
    """When, with which versions and on what kind of machine: everything but its name."""
    import torch
    import transformers

    import mixlens

    made = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "command": command,
        "versions": {
            "mixlens": mixlens.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
        "machine": machine(),
    }
    return {**made, **more}


def machine() -> str:
    """Processor, cores and memory, in words."""
    name = platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(
            (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), name
        )
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
        return f"{name}, {os.cpu_count()} cores, {memory:.0f} GiB"
    except (OSError, ValueError, AttributeError):  # not on every system
        return f"{name}, {os.cpu_count()} cores"


def described(facts: Mapping[str, Any]) -> str:
    """The same in lines of the page's width."""
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    machine = "; ".join(filter(None, [facts.get("accelerator"), facts["machine"]]))
    line = f"{facts['date']}; {machine}; {versions}; `{facts['command']}`"
    return textwrap.fill(line, 100, break_long_words=False, break_on_hyphens=False)


# ------------------------------------------------------------------------------------------ results


def committed(name: str) -> dict[str, Any] | None:
    """The last committed results of a command, or those on disk where there is no history."""
    path = RESULTS / name
    shown = subprocess.run(
        ["git", "show", f"HEAD:{path.relative_to(ROOT).as_posix()}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    text = shown.stdout if shown.returncode == 0 else path.read_text() if path.exists() else None
    report: dict[str, Any] | None = None if text is None else json.loads(text)
    return report


def save(path: Path, facts: Mapping[str, Any], figures: Sequence[Figure], **more: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {**facts, "figures": figures_of(figures), **more}
    path.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n")


def figures_of(figures: Sequence[Figure]) -> dict[str, dict[str, Any]]:
    """As they are kept, by their keys."""
    return {
        f.key: {
            "value": _rounded(f.value),
            "bar": f.bar,
            "passed": f.passed,
            "unit": f.unit.strip(),
        }
        for f in figures
    }


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def change(figure: Figure, last: Mapping[str, Any] | None) -> str:
    """New over old, and whether that is better: regressions stand out."""
    if not figure.tracked:
        return ""
    before = (last or {}).get("figures", {}).get(figure.key)
    if before is None or not before["value"]:
        return "new"
    ratio = figure.value / before["value"]
    improvement = ratio if figure.at_least else 1 / ratio if ratio else float("inf")
    word = "" if 0.9 < improvement < 1.1 else " better" if improvement > 1 else " WORSE"
    return f"×{ratio:.2f}{word}"


def write_section(name: str, text: str, page: Path = PAGE) -> None:
    """Puts generated text between the page's two comments of that name."""
    start, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    whole = page.read_text()
    if start not in whole or end not in whole:
        raise SystemExit(f"{page.name} has no place for {name!r}")
    head, rest = whole.split(start, 1)
    page.write_text(f"{head}{start}\n{text}\n{end}{rest.split(end, 1)[1]}")


def say(*words: object) -> None:
    """Progress, at once."""
    print(*words, flush=True)
    sys.stdout.flush()
