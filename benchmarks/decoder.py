"""`python -m benchmarks.decoder`: ALTI-Logit and information flow routes against ALTI, on the CPU.

GPT-2 small's shape with random weights, 512 tokens, two threads; and one route in a small trained
model (stories15M), if `MIXLENS_SHARED` names a folder that has it. Seconds are the processor's, so
that others on the machine count less. Things that are compared take turns.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import transformers

import mixlens
from benchmarks import models
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

TEXT = (
    "Once upon a time there was a little girl named Lily. She loved to play outside in the park"
    " with her red ball. One day the ball rolled into the deep river, and Lily began to cry. A big"
    " brown dog heard her, jumped into the water and brought the ball back. Lily said thank you to"
    " the"
)
TINY = {"vocab_size": 100, "n_embd": 32, "n_layer": 2, "n_head": 4}
Line = tuple[Figure, str]


def gpt2(**config: Any) -> Any:
    """GPT-2 with eager attention; without arguments, of the small shape."""
    made = transformers.GPT2Config(**config)
    made._attn_implementation = "eager"
    return models.randomised(transformers.GPT2LMHeadModel(made))


def whole_maps(model: Any, tokens: int, repeats: int) -> list[Line]:
    """The whole call, recording included."""
    lens, inputs = mixlens.Lens(model), models.tokens(model, tokens)
    runs: dict[str, Callable[[], Any]] = {
        "forward": partial(models.forward, model, inputs),
        "alti": partial(lens.measure, "alti", inputs),
        "alti_logit": partial(lens.measure, "alti_logit", inputs, word=7),
        "flow_routes": partial(lens.measure, "flow_routes", inputs),
    }
    times = in_turns(runs, repeats=repeats, seconds=20, clock=time.process_time)
    best = {name: timing.best for name, timing in times.items()}
    beyond = (best["alti_logit"] - best["alti"]) / best["forward"]
    return [
        (Figure("alti, in forward passes", best["alti"] / best["forward"]), str(times["alti"])),
        (
            Figure("alti_logit beyond alti, in forward passes", beyond, 0.3),
            f"{times['alti_logit']}; forward pass {times['forward']}",
        ),
        (
            Figure(
                "flow_routes of all rows, against alti", best["flow_routes"] / best["alti"], 3.5
            ),
            str(times["flow_routes"]),
        ),
    ]


def one_route(lens: mixlens.Lens, given: Any, repeats: int) -> list[Line]:
    """The route of the last token, recording included."""
    graph = lens.routes(given)
    times = in_turns(
        {"alti": partial(lens.measure, "alti", given), "route": partial(lens.routes, given)},
        repeats=repeats,
        seconds=30,
        clock=time.process_time,
    )
    rows = graph.layers * len(graph.tokens)
    return [
        (
            Figure(
                "one route at 0.04, against alti", times["route"].best / times["alti"].best, 1.0
            ),
            f"{graph.rows} of {rows} rows; {times['route']}, alti {times['alti']}",
        )
    ]


def measured(tiny: bool) -> list[Line]:
    if tiny:
        model = gpt2(**TINY)
        lens, given = mixlens.Lens(model), models.tokens(model, 12)
        return [*whole_maps(model, 24, 1), *one_route(lens, given, 1)]
    lines = whole_maps(gpt2(), 512, 3)
    stories = Path(os.environ.get("MIXLENS_SHARED", "")) / "models" / "stories15M"
    if not stories.is_dir():
        say(f"NOT RUN: one route, because {stories} is not there")
        return lines
    lens = mixlens.Lens.from_pretrained(str(stories), dtype="float32")
    return [*lines, *one_route(lens, TEXT, 5)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="a very small model: tests the program")
    parser.add_argument("--out", type=Path, help="where the results go")
    parser.add_argument("--threads", type=int, default=2, help="one is fairer on a busy machine")
    chosen = parser.parse_args(arguments)
    count = 1 if chosen.tiny else chosen.threads
    with threads(count):
        lines = measured(chosen.tiny)
    facts = circumstances(
        f"python -m benchmarks.decoder --threads {count}", threads=count, tokens=512
    )
    last = None if chosen.tiny else committed("decoder.json")
    header = ["decoder", "measured", "bar", "", "against the last", "from"]

    def text(before: Any) -> str:
        rows = [
            [line.key, line.shown, line.bar_shown, line.verdict, change(line, before), why]
            for line, why in lines
        ]
        return table(header, rows)

    say("\n" + text(last) + "\n\n" + described(facts))
    if chosen.out is not None or not chosen.tiny:
        save(
            chosen.out or RESULTS / "decoder.json",
            facts,
            [figure for figure, _ in lines],
            details={figure.key: why for figure, why in lines},
        )
    if chosen.out is None and not chosen.tiny:
        write_section("decoder", f"{described(facts)}\n\n{text(None)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
