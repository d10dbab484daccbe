"""Peak memory of every measure at 2,048 tokens and BERT-base width on the CPU, next to the bar of 4
GB. `make bench-memory`.

Each measure runs in a process of its own, with a `memory_budget` of 1 GiB (what a machine with 4
GiB free gets by default) and two layers: what is kept of further layers is bounded by the budget,
apart from their inputs and outputs, and the working memory of one layer is freed before the next.
The peak is the operating system's, of the whole process: interpreter, torch and weights are in it.

Measures that take an hour or more at this length (all targets of `value_zeroing`, probes,
`blank_out`) are stopped after `--seconds`: they go through chunks of equal size, so the first ones
show the peak. The others have ten times as long, and fail the run if they do not finish. Not
run: max-flow, and the exact form of `hidden_token_attribution`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.cases import CASES, Case
from benchmarks.report import (
    RESULTS,
    ROOT,
    Figure,
    change,
    circumstances,
    committed,
    described,
    save,
    say,
    table,
    write_section,
)

BAR = 4e9
BUDGET = 2**30
TOKENS, LAYERS = 2048, 2


class _Enough(Exception):
    """The time is over."""


def child(label: str, tokens: int, seconds: int, tiny: bool) -> dict[str, Any]:
    """Runs one measure in this process and says how much memory it took."""
    import torch

    import mixlens
    from benchmarks import models

    torch.set_num_threads(2)
    case = next(case for case in CASES if case.label == label)
    small: dict[str, Any] = (
        {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64} if tiny else {}
    )
    model = models.bert(
        "BertForSequenceClassification",
        num_hidden_layers=LAYERS,
        max_position_embeddings=max(512, tokens),
        vocab_size=1000,
        **small,
    )
    lens = mixlens.Lens(model, memory_budget=BUDGET)
    inputs = models.tokens(model, tokens)
    lens.record(models.tokens(model, 16))  # libraries and the model's structure are loaded
    before = _resident()

    def stop(*_: object) -> None:
        raise _Enough

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    start, finished = time.perf_counter(), True
    try:
        lens.measure(case.measure, inputs, **case.options)
    except _Enough:
        finished = False
    signal.alarm(0)
    return {
        "seconds": time.perf_counter() - start,
        "finished": finished,
        "before": before,
        "peak": _peak(),
    }


def _peak() -> int:
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes if sys.platform == "darwin" else kilobytes * 1024


def _resident() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):  # not on every system: then the peak so far
        return _peak()


def measured(case: Case, tokens: int, seconds: int, tiny: bool) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "benchmarks.memory",
        "--child",
        case.label,
        "--tokens",
        str(tokens),
        "--seconds",
        str(seconds),
    ]
    done = subprocess.run(
        command + (["--tiny"] if tiny else []),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        return {
            "error": (
                done.stderr.strip().splitlines()[-1]
                if done.stderr.strip()
                else f"exit status {done.returncode}"
            )
        }
    report: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=TOKENS)
    parser.add_argument(
        "--seconds", type=int, default=90, help="how long a measure that takes hours may run"
    )
    parser.add_argument("--only", help="measures whose label contains this")
    parser.add_argument("--tiny", action="store_true", help="a narrow model: tests the code")
    parser.add_argument(
        "--out",
        type=Path,
        help="where the results go (default: benchmarks/results/memory.json and the docs)",
    )
    parser.add_argument("--child", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.child is not None:
        print(json.dumps(child(chosen.child, chosen.tokens, chosen.seconds, chosen.tiny)))
        return 0
    figures, lines, failed = [], [], []
    last = committed("memory.json")
    for case in CASES:
        if chosen.only is not None and chosen.only not in case.label:
            continue
        report = measured(
            case, chosen.tokens, chosen.seconds * (1 if case.long else 10), chosen.tiny
        )
        if "error" in report:
            failed.append(case.label)
            say(f"  {case.label}: FAILED, {report['error']}")
            continue
        figure = Figure(case.label, report["peak"] / 1e9, BAR / 1e9, unit=" GB")
        note = (
            f"{report['seconds']:.0f} s"
            if report["finished"]
            else f"stopped after {report['seconds']:.0f} s"
        )
        if not report["finished"] and not case.long:
            failed.append(case.label)
            note += ": TOO EARLY, its peak was not reached for certain"
        more = f"{(report['peak'] - report['before']) / 1e9:.2f} GB"
        figures.append(figure)
        lines.append(
            [
                case.label,
                figure.shown,
                more,
                figure.bar_shown,
                figure.verdict,
                change(figure, last),
                note,
            ]
        )
        say("  " + ", ".join(lines[-1]))
    whole = not chosen.tiny and chosen.only is None and chosen.tokens == TOKENS
    facts = circumstances(
        "make bench-memory", threads=2, tokens=chosen.tokens, layers=LAYERS, memory_budget=BUDGET
    )
    text = table(
        ["peak memory", "whole process", "of it the call", "bar", "", "against the last", "time"],
        lines,
    )
    say(f"\n{text}\n\n{chosen.tokens} tokens, {LAYERS} layers; {described(facts)}")
    if chosen.out is not None or whole:
        save(chosen.out or RESULTS / "memory.json", facts, figures)
    if chosen.out is None and whole and not failed:
        write_section("memory", f"{described(facts)}\n\n{text}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
