"""Hidden Token Attribution against one backward pass per output, and the error of its estimate.

Neither form is run to its end at BERT-base shape and 128 tokens: 98,304 tangents by forward mode,
1.2 million backward passes by the naive one. The naive form is timed on a sample of outputs in
every layer and scaled. Ours is timed with 16 probes per token and with 8, through all layers and
with memory for the folded matrices of all of them: the estimate's time is as measured, and the
exact map's follows from the two, a fixed part and a part for each tangent, which costs the same
whether it is a probe or a unit vector. The error of 16 probes against the exact map is known on a
shorter sentence, where the exact map can be had.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import mixlens
from benchmarks import models
from benchmarks.naive import jacobian, relative_error
from benchmarks.report import Figure, say
from benchmarks.timing import spelled, timed

NAME = "hidden_token_attribution"
PROBES = 16
AGREEMENT = 1e-4  # float32 through all layers
_MEMORY = 8 * 2**30  # bytes; folded matrices take n d^2 numbers for each layer


@dataclass
class Compared:
    against_naive: list[tuple[Figure, str]] = field(default_factory=list)
    errors: list[tuple[Figure, str]] = field(default_factory=list)
    difference: float = 0.0  # between exact and naive contributions


def mean_relative_error(estimate: Any, exact: Any) -> float:
    """Of all contributions that are not zero."""
    a, b = np.asarray(estimate, dtype=float), np.asarray(exact, dtype=float)
    known = b > 0
    return float((np.abs(a - b)[known] / b[known]).mean())


def compared(
    lens: mixlens.Lens, inputs: models.Inputs, short: int, *, outputs_per_layer: int
) -> Compared:
    comparison = Compared()
    config: Any = lens.model.config
    width = int(config.hidden_size)
    _agreement(comparison, lens, short)
    naive = jacobian.estimated_seconds(lens.model, inputs, outputs_per_layer=outputs_per_layer)
    roomy = lens.record(inputs, memory_budget=_MEMORY)
    half, whole = (
        timed(partial(mixlens.measure, NAME, roomy, probes=k), repeats=1, warm_up=False).best
        for k in (PROBES // 2, PROBES)
    )
    say(
        f"  naive {spelled(naive)} (scaled from {outputs_per_layer} outputs in each layer),"
        f" {PROBES} probes {spelled(whole)}"
    )
    each = (whole - half) / (PROBES - PROBES // 2)
    for label, seconds, bar, how in (
        (
            "exact",
            whole + each * (width - PROBES),
            8.0,
            f"scaled from {PROBES // 2} and {PROBES} probes",
        ),
        (f"{PROBES} probes", whole, 300.0, "measured"),
    ):
        figure = Figure(
            f"{NAME}, {label}: against naive", naive / seconds, bar, at_least=True, unit="×"
        )
        comparison.against_naive.append(
            (figure, f"naive {spelled(naive)} (scaled), mixlens {spelled(seconds)} ({how})")
        )
        say(f"  {label}: {figure.shown} {figure.verdict}; {comparison.against_naive[-1][1]}")
    return comparison


def _agreement(comparison: Compared, lens: mixlens.Lens, short: int) -> None:
    """On a short sentence: exact against naive for one target of the first and the last layer, and
    probes against exact.
    """
    inputs = models.tokens(lens.model, short)
    recording = lens.record(inputs)
    exact = mixlens.measure(NAME, recording).scores
    for layer in (0, len(exact) - 1):
        expected = jacobian.contributions(lens.model, inputs, layer, short // 2)
        error = relative_error(exact[layer, short // 2], expected)
        comparison.difference = max(comparison.difference, error)
        say(
            f"  layer {layer}, target {short // 2} of {short}: exact differs from naive by"
            f" {error:.0e}"
        )
    estimate = mixlens.measure(NAME, recording, probes=PROBES)
    error = mean_relative_error(estimate.scores, exact)
    figure = Figure(f"{NAME}, {PROBES} probes: mean relative error", 100 * error, 5.0, unit=" %")
    comparison.errors.append(
        (
            figure,
            (
                f"{short} tokens, all layers, against the exact map; exact and naive differ by"
                f" {comparison.difference:.0e}"
            ),
        )
    )
    say(f"  {PROBES} probes: {figure.shown} {figure.verdict}")
