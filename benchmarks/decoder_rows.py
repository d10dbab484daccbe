"""ALTI-Logit and information flow routes against ALTI on the CPU: whole calls, recording included.

GPT-2 small's shape with random weights and 512 tokens; and one route in a small trained model
(stories15M), if `MIXLENS_SHARED` names a folder that has it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import transformers

import mixlens
from benchmarks import models
from benchmarks.report import Figure, say
from benchmarks.timing import Clock, in_turns

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


def whole_maps(*, tiny: bool, clock: Clock) -> list[Line]:
    """Maps of every layer."""
    model = gpt2(**(TINY if tiny else {}))
    lens, inputs = mixlens.Lens(model), models.tokens(model, 24 if tiny else 512)
    runs: dict[str, Callable[[], Any]] = {
        "forward": partial(models.forward, model, inputs),
        "alti": partial(lens.measure, "alti", inputs),
        "alti_logit": partial(lens.measure, "alti_logit", inputs, word=7),
        "flow_routes": partial(lens.measure, "flow_routes", inputs),
    }
    times = in_turns(runs, repeats=1 if tiny else 5, seconds=60, clock=clock)
    best = {name: timing.best for name, timing in times.items()}
    beyond = (best["alti_logit"] - best["alti"]) / best["forward"]
    routes = best["flow_routes"] / best["alti"]
    return [
        (Figure("alti, in forward passes", best["alti"] / best["forward"]), str(times["alti"])),
        (
            Figure("alti_logit beyond alti, in forward passes", beyond, 0.3),
            f"{times['alti_logit']}; forward pass {times['forward']}",
        ),
        (Figure("flow_routes of all rows, against alti", routes, 3.5), str(times["flow_routes"])),
    ]


def one_route(*, tiny: bool, clock: Clock) -> list[Line]:
    """The route of the last token."""
    stories = Path(os.environ.get("MIXLENS_SHARED", "")) / "models" / "stories15M"
    given: Any = TEXT
    if tiny:
        model = gpt2(**TINY)
        lens, given = mixlens.Lens(model), models.tokens(model, 12)
    elif stories.is_dir():
        lens = mixlens.Lens.from_pretrained(str(stories), dtype="float32")
    else:
        say(f"NOT RUN: one route, because {stories} is not there")
        return []
    graph = lens.routes(given)
    runs: dict[str, Callable[[], Any]] = {
        "alti": partial(lens.measure, "alti", given),
        "route": partial(lens.routes, given),
    }
    times = in_turns(runs, repeats=1 if tiny else 40, seconds=30, clock=clock)
    ratio = times["route"].best / times["alti"].best
    why = f"{graph.rows} of {graph.layers * len(graph.tokens)} rows;"
    why += f" {times['route']}, alti {times['alti']}"
    return [(Figure("one route at 0.04, against alti", ratio, 1.0), why)]
