"""One target of a long text on the CPU, in forward passes of the same model with its own attention:
the rows of `python -m benchmarks.cpu --only rows`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

import mixlens
from benchmarks import models
from benchmarks.report import Figure, say
from benchmarks.timing import in_turns
from mixlens.measuring.measure import measure_together

# SmolLM2 135M, its vocabulary cut, which no layer sees.
SMALL_LLAMA = {
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
}


@dataclass(frozen=True)
class Row:
    """Measures of one target that are taken from one pass, and their bar in forward passes."""

    label: str
    build: Callable[..., Any]
    tokens: int
    measures: tuple[str, ...]
    bar: float
    config: Mapping[str, Any] = field(default_factory=dict)


def rows(tiny: bool) -> list[Row]:
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    short = {**small, "intermediate_size": 64, "vocab_size": 100}
    bert = (models.bert, 24 if tiny else 512)
    config: Mapping[str, Any] = short if tiny else {}
    llama = {**short, "num_key_value_heads": 2} if tiny else SMALL_LLAMA
    three = ("attention_norm", "alti", "value_zeroing")
    return [
        Row("BERT-base, attention_norm", *bert, ("attention_norm",), 1.15, config),
        Row("BERT-base, value_zeroing", *bert, ("value_zeroing",), 2, config),
        Row("SmolLM2, three measures", models.llama, 40 if tiny else 2000, three, 2, llama),
    ]


def compared(
    row: Row, repeats: int, seconds: float, clock: Callable[[], float]
) -> tuple[Figure, str]:
    """The whole call against one plain forward pass, each with the model's own sdpa attention."""
    model = row.build(dtype=torch.float32, **row.config)
    model.set_attn_implementation("sdpa")
    model.config.use_cache = False
    inputs, lens = models.tokens(model, row.tokens), mixlens.Lens(model)

    def measured() -> Any:
        if len(row.measures) == 1:
            return lens.measure(row.measures[0], inputs, targets=[-1])
        return measure_together(row.measures, lens.record(inputs, targets=[-1]))

    times = in_turns(
        {"forward": partial(models.forward, model, inputs), "whole": measured},
        repeats=repeats,
        seconds=seconds,
        clock=clock,
    )
    label = f"{row.label}, {row.tokens} tokens, one target: forward passes"
    figure = Figure(label, times["whole"].best / times["forward"].best, row.bar)
    said = f"call {times['whole']}, forward pass {times['forward']}"
    say(f"  {label}: {figure.shown} {figure.verdict}; {said}")
    return figure, said


def all_compared(
    *, tiny: bool, repeats: int, seconds: float, clock: Callable[[], float] = time.perf_counter
) -> list[tuple[Figure, str]]:
    return [compared(row, repeats, seconds, clock) for row in rows(tiny)]
