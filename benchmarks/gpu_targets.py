"""Rows of the GPU table for a few targets of a long prompt: costs in forward passes of the base
model with its own sdpa attention, no head and no cache.
"""

from __future__ import annotations

from typing import Any

import torch

import mixlens
from benchmarks import models
from benchmarks.gpu_rows import Bench
from benchmarks.operations import started, starting_seconds
from benchmarks.report import Figure
from benchmarks.timing import in_turns, timed
from mixlens.measuring.measure import measure_together

THREE = ("attention_norm", "alti", "value_zeroing")
SHORT = {"attention_norm": 3.5, "value_zeroing": 4.0}
SHAPE = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
}


def large_lens(bench: Bench) -> mixlens.Lens:
    """A model of the 8B shape that runs sdpa."""
    shape = {**SHAPE, **bench.sizes.llama}
    model = models.llama(dtype=bench.sizes.llama_dtype, device=bench.device, **shape)
    model.config.max_position_embeddings = 2**18  # rotary: no table is longer for it
    model.set_attn_implementation("sdpa")
    return mixlens.Lens(model, memory_budget=3 * 2**30)


def _above(bench: Bench, base: int, run: Any) -> float:
    """GiB of one call above the peak of the forward pass."""
    return (bench.peak(run)[1] - base) / 2**30


def _compare(bench: Bench, lens: mixlens.Lens, tokens: int, targets: int, bars: Any) -> None:
    inputs = models.tokens(lens.model, tokens)
    rows = list(range(-targets, 0))

    def forward() -> None:
        with torch.no_grad():
            lens.model(**inputs, use_cache=False)

    short = tokens <= 2048  # then the processor decides, which is slower at some moments
    plain = timed(forward, repeats=3)
    base = bench.peak(forward)[1]
    bench.profile("a forward pass", forward)
    for names, bar in bars.items():

        def run(names: tuple[str, ...] = names) -> None:
            if len(names) == 1:
                lens.measure(names[0], inputs, targets=rows)
            else:
                measure_together(names, lens.record(inputs, targets=rows))

        if short:  # in turns, so that such a moment slows both
            times = in_turns({"forward": forward, "call": run}, repeats=30)
            plain, seconds = times["forward"], times["call"]
        else:
            seconds = timed(run, repeats=3 if tokens <= 10_000 else 1)
        label = f"Llama 8B, {tokens} tokens, {targets} targets, {' + '.join(names)}"
        bench.profile(label, run)
        above = _above(bench, base, run)
        why = f"call {seconds}, forward pass {plain}, {above:.2f} GiB above it"
        bench.add(Figure(f"{label}: forward passes", seconds.best / plain.best, bar), why)
        if bench.device != "cpu" and short:
            floor = bench.kernels(run) / plain.best
            why = "what the device computes: the rest of a short call is Python"
            bench.add(Figure(f"{label}: kernels alone, forward passes", floor), why)
        if short:
            _count(bench, label, forward, run)
        bench.add(Figure(f"{label}: memory above a forward pass", above, 2.0, unit=" GiB"))


def _count(bench: Bench, label: str, forward: Any, run: Any) -> None:
    """What a short call starts, and what starting one operation costs on this machine."""
    plain, whole = started(forward), started(run)
    bench.add(Figure(f"{label}: operations", whole.computing), f"{whole}; forward pass: {plain}")
    operation, view = (1e6 * seconds for seconds in starting_seconds(bench.device))
    why = f"starting one takes {operation:.1f} µs, one view {view:.1f} µs, from Python"
    least = (whole.computing * operation + whole.views * view) / 1000
    bench.add(Figure(f"{label}: starting them", least, unit=" ms"), why)


def targets_of_a_short_prompt(bench: Bench) -> None:
    """One target: what starts a kernel counts as much as what it computes."""
    tokens = 1024 if bench.sizes.long > 1000 else 24
    _compare(bench, large_lens(bench), tokens, 1, {(name,): bar for name, bar in SHORT.items()})


def targets_of_a_prompt(bench: Bench) -> None:
    """One target and sixteen."""
    lens, tokens = large_lens(bench), 8192 if bench.sizes.long > 1000 else 40
    one = {("attention_norm",): 1.3, ("alti",): 1.4, ("value_zeroing",): 2.0, THREE: None}
    _compare(bench, lens, tokens, 1, one)
    _compare(bench, lens, tokens, 16, {("attention_norm",): 3.2, ("value_zeroing",): 15.0})


def target_of_a_long_prompt(bench: Bench) -> None:
    """One target, three measures in one call."""
    tokens = 131_072 if bench.sizes.long > 1000 else 60
    _compare(bench, large_lens(bench), tokens, 1, {THREE: 1.4})


ROWS = [targets_of_a_short_prompt, targets_of_a_prompt, target_of_a_long_prompt]
