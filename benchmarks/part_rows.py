"""DecompX and the feed-forward scopes of the norms at BERT-base shape on the CPU: whole calls,
recording included.

DecompX in forward passes of 64 tokens, its peak in memory, and its linear rules for one output. The
feed-forward scopes take the same two products for each pair of tokens as Value Zeroing, and are
compared with it at 128 tokens.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import mixlens
from benchmarks import models
from benchmarks.report import Figure
from benchmarks.timing import Clock, in_turns

SCOPES = ("attention_norm_ff", "attention_norm_ff_res", "attention_norm_ff_res_ln")
TINY: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 100,
}
Line = tuple[Figure, str]


def decompx(*, tiny: bool, clock: Clock) -> list[Line]:
    """All targets by the default rule, and one logit by a linear rule."""
    lens, tokens = _classifier(tiny), 12 if tiny else 64
    inputs = models.tokens(lens.model, tokens)
    runs: dict[str, Callable[[], Any]] = {
        "forward": partial(models.forward, lens.model, inputs),
        "all": partial(lens.measure, "decompx", inputs),
        "one": partial(lens.measure, "decompx_logit", inputs, label=1, bias="equal"),
    }
    times = in_turns(runs, repeats=5, seconds=60, clock=clock)
    best = times["forward"].best
    peak = _peak_of(runs["all"])
    return [
        (Figure("decompx: forward passes", times["all"].best / best, 55), f"call {times['all']}"),
        (Figure("decompx: memory of the call", peak / 1e9, 1, unit=" GB"), f"{tokens} tokens"),
        (
            Figure("decompx_logit, linear rules: forward passes", times["one"].best / best, 4),
            f"call {times['one']}, forward pass {times['forward']}",
        ),
    ]


def scopes(*, tiny: bool, clock: Clock) -> list[Line]:
    """Against Value Zeroing of all targets."""
    lens = _classifier(tiny)
    inputs = models.tokens(lens.model, 12 if tiny else 128)
    runs: dict[str, Callable[[], Any]] = {
        name: partial(lens.measure, name, inputs) for name in ("value_zeroing", *SCOPES)
    }
    times = in_turns(runs, repeats=2, warm_up=False, clock=clock)
    zeroing = times["value_zeroing"].best
    return [
        (
            Figure(f"{name}: against value_zeroing", times[name].best / zeroing, 1.5),
            f"call {times[name]}",
        )
        for name in SCOPES
    ]


def _classifier(tiny: bool) -> mixlens.Lens:
    return mixlens.Lens(models.bert("BertForSequenceClassification", **(TINY if tiny else {})))


def _peak_of(run: Callable[[], Any]) -> int:
    """Bytes that the process held at most while a call ran, beyond what it held before: looked at
    every few milliseconds.
    """
    before, most, done = _resident(), [0], threading.Event()

    def look() -> None:
        while not done.wait(0.005):
            most[0] = max(most[0], _resident())

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        run()
        time.sleep(0.01)
    finally:
        done.set()
        watcher.join()
    return max(0, most[0] - before)


def _resident() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:  # not on every system
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
