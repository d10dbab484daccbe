"""`make bench`: every measure at BERT-base shape on the CPU, against the naive form and in forward
passes, next to the bars.

Everything is timed in this one process with two threads. The figure is the ratio of the best times;
medians are next to them. A naive form that does not give the same numbers as the measure fails the
run; a missed bar is printed, no more, because a busy machine misses bars too.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

import mixlens
from benchmarks import hidden_tokens, models, naive
from benchmarks.cpu_rows import all_compared
from benchmarks.imports import import_figures
from benchmarks.report import (
    RESULTS,
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
from benchmarks.timing import in_turns, threads
from mixlens.model.session import matmul_precision

# difference in float32 from the naive form in float64, relative to the largest score: the bar
ACCURATE = 1e-5
FLOOR = (  # of the feed-forward part, on all pairs: see `naive.second_products`
    "second product alone"
)
AGREEMENT = 1e-4  # beyond this it is a different map, and the run fails


@dataclass(frozen=True)
class Row:
    """A measure as it is asked for, and its bars."""

    label: str
    measure: str
    kernel: float | None  # at least so many times faster than the naive form
    passes: float  # at most so many forward passes
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Sizes:
    tokens: int = 128
    layer: int = 5  # the one that is compared with its naive form
    repeats: int = 7
    calls: int = (
        21  # of a whole call: it is short, and on a shared machine most of a few may be disturbed
    )
    seconds: float = 20.0  # no further repeat of a comparison after these
    short: int = 8  # tokens of the sentence on which the error of the probes is known
    config: Mapping[str, Any] = field(default_factory=dict)  # BERT-base is what an empty one gives
    threads: int = 2


TINY = Sizes(
    tokens=24,
    layer=1,
    repeats=2,
    calls=2,
    seconds=1.0,
    short=4,
    threads=1,
    config={
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "vocab_size": 100,
    },
)


def rows(tokens: int) -> list[Row]:
    norms = ("attention_norm", "attention_norm_res", "attention_norm_res_ln", "globenc")
    return [
        Row("attention", "attention", None, 1.3),
        *(Row(name, name, 30, 1.5) for name in norms),
        Row("effective_attention", "effective_attention", 20, 1.5),
        Row("alti", "alti", 8, 2.5),
        Row("value_zeroing, one target", "value_zeroing", 40, 3, {"targets": [tokens // 2]}),
        Row("value_zeroing, all targets", "value_zeroing", 5, round(0.4 * tokens, 1)),
    ]


@dataclass
class Run:
    """What has been measured so far."""

    kernel: list[tuple[Figure, str]] = field(default_factory=list)
    passes: list[tuple[Figure, str]] = field(default_factory=list)
    accuracy: list[tuple[Figure, str]] = field(default_factory=list)
    other: list[tuple[Figure, str]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def figures(self) -> list[Figure]:
        return [figure for figure, _ in self.lines]

    @property
    def lines(self) -> list[tuple[Figure, str]]:
        return [*self.kernel, *self.passes, *self.accuracy, *self.other]


def kernel_row(
    run: Run, row: Row, recording: mixlens.Recording, layer: naive.RecordedLayer, sizes: Sizes
) -> None:
    """The map of one recorded layer: the naive form against the measure's own code."""
    targets = {"targets": row.options["targets"]} if "targets" in row.options else {}
    slow: Callable[[], Any] = partial(naive.MAPS[row.measure], layer, **targets)
    fast: Callable[[], Any] = partial(
        mixlens.measure, row.measure, recording, layers=[sizes.layer], **row.options
    )
    exact = naive.MAPS[row.measure](
        naive.RecordedLayer.of(recording, sizes.layer, torch.float64), **targets
    )
    error = naive.relative_error(fast().scores[0], exact)
    rounding = naive.relative_error(slow(), exact)
    if not error <= AGREEMENT:
        run.wrong.append(f"{row.label}: the naive form differs by {error:.1e}")
    run.accuracy.append(
        (
            Figure(f"{row.label}: difference", error, ACCURATE, tracked=False),
            f"the naive form in float32 is off by {rounding:.0e}",
        )
    )
    turns = {"naive": slow, "fast": fast}
    all_pairs = row.measure == "value_zeroing" and not targets
    if all_pairs:
        with matmul_precision("bf16"):
            narrow = naive.relative_error(fast().scores[0], exact)
        why = "asked for with precision=; a processor without such products takes float32"
        run.accuracy.append((Figure(f"{row.label}, bf16: difference", narrow, tracked=False), why))
        turns["floor"] = partial(naive.second_products, layer)
    seconds = in_turns(turns, repeats=sizes.repeats, seconds=sizes.seconds, warm_up=False)
    figure = Figure(
        f"{row.label}: against naive",
        seconds["naive"].best / seconds["fast"].best,
        row.kernel,
        at_least=True,
        unit="×",
    )
    run.kernel.append((figure, f"naive {seconds['naive']}, mixlens {seconds['fast']}"))
    say(
        f"  {row.label}: {figure.shown} {figure.verdict}; {run.kernel[-1][1]}; differs by"
        f" {error:.0e}"
    )
    if all_pairs:
        most = Figure(
            f"{row.label}, {FLOOR}: against naive",
            seconds["naive"].best / seconds["floor"].best,
            at_least=True,
            unit="×",
        )
        run.kernel.append(
            (
                most,
                (
                    f"naive {seconds['naive']}, the product {seconds['floor']}: no exact form is"
                    " faster"
                ),
            )
        )
        say(f"  {row.label}, {FLOOR}: {most.shown}; {run.kernel[-1][1]}")


def passes_row(run: Run, row: Row, lens: mixlens.Lens, inputs: models.Inputs, sizes: Sizes) -> None:
    """The whole call, all layers, against one plain forward pass."""
    whole: Callable[[], Any] = partial(lens.measure, row.measure, inputs, **row.options)
    plain: Callable[[], Any] = partial(models.forward, lens.model, inputs)
    long = (
        row.label.endswith("all targets") and sizes is not TINY
    )  # one call is long enough; no warm-up
    times = in_turns(
        {"forward": plain, "whole": whole},
        repeats=3 if long else sizes.calls,
        seconds=sizes.seconds,
        warm_up=not long,
    )
    figure = Figure(
        f"{row.label}: forward passes", times["whole"].best / times["forward"].best, row.passes
    )
    run.passes.append((figure, f"call {times['whole']}, forward pass {times['forward']}"))
    say(f"  {row.label}: {figure.shown} forward passes {figure.verdict}; {run.passes[-1][1]}")


def measured(sizes: Sizes) -> Run:
    run = Run()
    model = models.bert(**sizes.config)
    inputs = models.tokens(model, sizes.tokens)
    lens = mixlens.Lens(model)
    say(
        "cost of the whole call in forward passes"
    )  # first: the naive forms leave a fragmented heap behind
    for row in rows(sizes.tokens):
        passes_row(run, row, lens, inputs, sizes)
    run.passes += all_compared(tiny=sizes is TINY, repeats=sizes.repeats, seconds=6 * sizes.seconds)
    recording = lens.record(inputs)
    layer = naive.RecordedLayer.of(recording, sizes.layer)
    say(f"kernel against naive: layer {sizes.layer}, {sizes.tokens} tokens, float32")
    for row in rows(sizes.tokens):
        if row.kernel is not None:
            kernel_row(run, row, recording, layer, sizes)
    del layer, recording
    say("hidden_token_attribution")
    compared = hidden_tokens.compared(
        lens, inputs, sizes.short, outputs_per_layer=1 if sizes is TINY else 3
    )
    run.kernel += compared.against_naive
    run.other += compared.errors
    if not compared.difference <= hidden_tokens.AGREEMENT:
        run.wrong.append(
            f"hidden_token_attribution: the naive form differs by {compared.difference:.1e}"
        )
    say("imports")
    run.other += [
        (figure, "best of fresh processes") for figure in import_figures(1 if sizes is TINY else 3)
    ]
    return run


def tables(run: Run, last: Mapping[str, Any] | None) -> str:
    parts = []
    for title, rows in (
        ("kernel against naive", run.kernel),
        ("cost in forward passes", run.passes),
        ("difference from the naive form in float64", run.accuracy),
        ("other figures", run.other),
    ):
        lines = [
            [
                _label(figure),
                figure.shown,
                figure.bar_shown,
                figure.verdict,
                change(figure, last),
                why,
            ]
            for figure, why in rows
        ]
        parts.append(table([title, "measured", "bar", "", "against the last", "from"], lines))
    return "\n\n".join(parts)


def _label(figure: Figure) -> str:
    for end in (": against naive", ": forward passes", ": difference"):
        if figure.key.endswith(end):
            return figure.key.removesuffix(end)
    return figure.key


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--tiny",
        action="store_true",
        help="a very small model: tests the benchmark, says nothing about speed",
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="where the results go (default: benchmarks/results/cpu.json, and the docs)",
    )
    parser.add_argument(
        "--only",
        choices=["rows"],
        help="one target of long texts, and nothing else; not written",
    )
    parser.add_argument(
        "--processor",
        action="store_true",
        help="with --only rows: seconds of the processor on one thread, for a busy machine",
    )
    chosen = parser.parse_args(arguments)
    sizes = TINY if chosen.tiny else Sizes()
    if chosen.only == "rows":
        clock = time.process_time if chosen.processor else time.perf_counter
        with threads(1 if chosen.processor else sizes.threads):
            all_compared(
                tiny=chosen.tiny, repeats=sizes.repeats, seconds=6 * sizes.seconds, clock=clock
            )
        return 0
    with threads(sizes.threads):
        run = measured(sizes)
    last = None if chosen.tiny else committed("cpu.json")
    text = tables(run, last)
    facts = circumstances(
        "make bench" + (" (tiny)" if chosen.tiny else ""),
        threads=sizes.threads,
        tokens=sizes.tokens,
    )
    say("\n" + text + "\n\n" + described(facts))
    if chosen.out is not None or not chosen.tiny:
        details = {figure.key: why for figure, why in run.lines}
        save(chosen.out or RESULTS / "cpu.json", facts, run.figures, details=details)
    if chosen.out is None and not chosen.tiny and not run.wrong:
        write_section("cpu", f"{described(facts)}\n\n{tables(run, None)}")
    missed = [figure.key for figure in run.figures if figure.passed is False]
    say(
        f"\n{len(missed)} of {sum(f.bar is not None for f in run.figures)} bars missed"
        + (": " + "; ".join(missed) if missed else "")
    )
    for line in run.wrong:
        say("WRONG:", line)
    return 1 if run.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
