"""The rows of the GPU table: each a function that measures and adds its figures."""

from __future__ import annotations

import cProfile
import functools
import gc
import io
import pstats
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

import numpy as np
import torch

import mixlens
from benchmarks import models, naive
from benchmarks.hidden_tokens import mean_relative_error
from benchmarks.naive import jacobian
from benchmarks.report import Figure
from benchmarks.timing import in_turns, once, spelled, timed
from mixlens.model.session import matmul_precision

_HTA = "hidden_token_attribution"


@dataclass(frozen=True)
class Sizes:
    sentence: int = 58
    text: int = 512
    long: int = 4096
    targets: int = 8
    sentences: int = 256
    sentence_length: int = 40
    calls: int = 64  # of the calls for single sentences, so many are timed
    bert: Mapping[str, Any] = field(default_factory=dict)
    llama: Mapping[str, Any] = field(default_factory=dict)
    llama_dtype: torch.dtype = torch.bfloat16

    @classmethod
    def tiny(cls) -> Sizes:
        bert = {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 64,
            "vocab_size": 100,
        }
        llama = {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "intermediate_size": 64,
            "vocab_size": 100,
        }
        return cls(5, 24, 40, 2, 8, 6, 4, bert, llama)


@dataclass
class Bench:
    """The device, the sizes, and what has been measured so far."""

    device: str
    sizes: Sizes
    profiled: bool = False
    figures: list[tuple[Figure, str]] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    log: TextIO | None = None

    def say(self, *words: object) -> None:
        print(*words, flush=True)
        if self.log is not None:
            print(*words, file=self.log, flush=True)

    def add(self, figure: Figure, why: str = "") -> None:
        self.figures.append((figure, why))
        self.say(
            f"    {figure.key}: {figure.shown}"
            f" {figure.bar_shown and f'(bar {figure.bar_shown}: {figure.verdict})'} {why}"
        )

    def bert(self, dtype: torch.dtype = torch.float32) -> mixlens.Lens:
        return mixlens.Lens(models.bert(dtype=dtype, device=self.device, **self.sizes.bert))

    @functools.cached_property
    def llama(self) -> mixlens.Lens:
        return mixlens.Lens(
            models.llama(dtype=self.sizes.llama_dtype, device=self.device, **self.sizes.llama)
        )

    def peak(self, run: Callable[[], Any]) -> tuple[float, int, Any]:
        """Seconds of one call, the most memory that was allocated meanwhile (the model included),
        and what it returned.
        """
        kept: list[Any] = []
        if self.device != "cpu":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        seconds = once(lambda: kept.append(run()))
        return seconds, torch.cuda.max_memory_allocated() if self.device != "cpu" else 0, kept[0]

    def kernels(self, run: Callable[[], Any]) -> float:
        """Seconds that the device computes in one call: what Python adds is left out."""
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiled:
            run()
            torch.cuda.synchronize()
        return sum(event.self_device_time_total for event in profiled.key_averages()) / 1e6

    def profile(self, name: str, run: Callable[[], Any]) -> None:
        if not self.profiled:
            return
        for _ in range(4):
            asked, collected = _asked_for_memory(), [s["collections"] for s in gc.get_stats()]
            seconds = once(run)
            now = [s["collections"] - c for s, c in zip(gc.get_stats(), collected, strict=True)]
            self.say(
                f"    one call {spelled(seconds)}, {_asked_for_memory() - asked} times memory was"
                f" asked for, garbage collections {now}"
            )
        activities = [torch.profiler.ProfilerActivity.CPU]
        activities += [torch.profiler.ProfilerActivity.CUDA] if self.device != "cpu" else []
        with torch.profiler.profile(activities=activities) as profiled:
            run()
        order = "self_cuda_time_total" if self.device != "cpu" else "self_cpu_time_total"
        averages = profiled.key_averages()
        self.say(
            f"    where the time of {name} goes\n"
            f"{averages.table(sort_by=order, row_limit=12, max_name_column_width=60)}"
        )
        with cProfile.Profile() as host:
            run()
        table = io.StringIO()
        pstats.Stats(host, stream=table).sort_stats("tottime").print_stats(40)
        self.say(f"    what Python does meanwhile\n{table.getvalue()}")


def _asked_for_memory() -> int:
    """How often the device was asked for memory or given it back."""
    known = torch.cuda.memory_stats() if torch.cuda.is_available() else {}
    return sum(known.get(name, 0) for name in ("num_device_alloc", "num_device_free"))


def _keep(kept: list[Any], lens: mixlens.Lens, inputs: models.Inputs) -> None:
    kept.append(lens.measure(_HTA, inputs))


def _errors(actual: Any, expected: Any) -> str:
    worst = naive.relative_error(actual, expected)
    return (
        f"largest {worst:.0e} of the largest score, mean relative"
        f" {mean_relative_error(actual, expected):.0e}"
    )


# --------------------------------------------------------------------------------------------- rows


def value_zeroing(bench: Bench) -> None:
    """All targets of a text, all layers, in every precision."""
    lens = bench.bert()
    inputs = models.tokens(lens.model, bench.sizes.text)
    scores = {}
    for name, bar in (("TF32", 0.18), ("float32", 0.5), ("bf16", None)):
        with matmul_precision(name.lower()):
            for _ in range(2):  # warm-up: the first call finds the structure and asks for memory
                scores[name] = lens.measure("value_zeroing", inputs).scores
            seconds = timed(lambda: lens.measure("value_zeroing", inputs), repeats=3, warm_up=False)
            bench.profile(f"value_zeroing in {name}", lambda: lens.measure("value_zeroing", inputs))
        bench.add(
            Figure(
                f"value_zeroing, {bench.sizes.text} tokens, {name}", seconds.best, bar, unit=" s"
            ),
            str(seconds),
        )
    exact = bench.bert(torch.float64).measure("value_zeroing", inputs).scores
    for name in scores:
        bench.say(f"    {name} against float64: {_errors(scores[name], exact)}")
        worst = naive.relative_error(scores[name], exact)
        bench.add(
            Figure(f"value_zeroing, {name} against float64: difference", worst),
            "relative to the largest score",
        )


def hidden_token_attribution(bench: Bench) -> None:
    """The exact map of a sentence, all layers, in both precisions; the estimate next to it."""
    lens = bench.bert()
    inputs = models.tokens(lens.model, bench.sizes.sentence)
    lens.measure(_HTA, inputs, probes=16)  # warm-up
    scores = {}
    for name, bar in (("TF32", 3.0), ("float32", 12.0)):
        with matmul_precision(name.lower()):
            lens.measure(_HTA, inputs, probes=16)
            kept: list[Any] = []
            seconds = once(functools.partial(_keep, kept, lens, inputs))
            scores[name] = kept[0].scores
        bench.add(
            Figure(f"{_HTA}, {bench.sizes.sentence} tokens, exact, {name}", seconds, bar, unit=" s")
        )
    error = naive.relative_error(scores["TF32"], scores["float32"])
    bench.add(
        Figure(f"{_HTA}, TF32 against float32: difference", error), "relative to the largest score"
    )
    estimate = timed(lambda: lens.measure(_HTA, inputs, probes=16), repeats=2)
    probes = lens.measure(_HTA, inputs, probes=16).scores
    bench.add(
        Figure(
            f"{_HTA}, 16 probes: mean relative error",
            100 * mean_relative_error(probes, scores["float32"]),
            5.0,
            unit=" %",
        )
    )
    bench.add(Figure(f"{_HTA}, 16 probes", estimate.best, unit=" s"), str(estimate))
    same = (
        bench.bert(torch.float64).measure(_HTA, inputs, probes=16).scores
    )  # the same probes, so only rounding differs
    bench.add(
        Figure(f"{_HTA}, float32 against float64: difference", naive.relative_error(probes, same))
    )
    slow = jacobian.estimated_seconds(lens.model, inputs, outputs_per_layer=10)
    bench.add(
        Figure(f"{_HTA}: one backward pass per output", slow, unit=" s"),
        "scaled from 10 outputs in each layer",
    )
    bench.profile("16 probes in float32", lambda: lens.measure(_HTA, inputs, probes=16))


def alti(bench: Bench) -> None:
    """All layers of a text, from one recording, against the materialised form."""
    lens = bench.bert()
    inputs = models.tokens(lens.model, bench.sizes.text)
    recording = lens.record(inputs)
    layers = [naive.RecordedLayer.of(recording, index) for index in range(len(recording.layers()))]

    def slow() -> None:
        for layer in layers:
            naive.MAPS["alti"](layer)

    for name, bar in (("float32", 10.0), ("TF32", None)):
        with matmul_precision(name.lower()):
            fast = mixlens.measure("alti", recording).scores[-1]
            error = naive.relative_error(fast, naive.MAPS["alti"](layers[-1]))
            times = in_turns(
                {"fast": lambda: mixlens.measure("alti", recording), "slow": slow},
                repeats=3,
                seconds=15,
            )
        why = f"materialised {times['slow']}, mixlens {times['fast']}, difference {error:.0e}"
        faster = times["slow"].best / times["fast"].best
        bench.add(
            Figure(
                f"alti, {bench.sizes.text} tokens, {name}: against materialised",
                faster,
                bar,
                True,
                "×",
            ),
            why,
        )
        if not error <= 1e-3:
            raise AssertionError(f"alti and its materialised form differ by {error:.1e}")
    whole = timed(lambda: lens.measure("alti", inputs), repeats=3)
    plain = timed(lambda: models.forward(lens.model, inputs), repeats=5)
    bench.add(
        Figure(f"alti, {bench.sizes.text} tokens: forward passes", whole.best / plain.best),
        f"call {whole}, forward pass {plain}",
    )
    bench.profile("alti", lambda: mixlens.measure("alti", recording))


def _long(bench: Bench, name: str, targets: Sequence[int] | None = None) -> None:
    lens = bench.llama
    lens.measure(
        name, models.tokens(lens.model, 16 * bench.sizes.targets), targets=targets
    )  # warm-up
    inputs = models.tokens(lens.model, bench.sizes.long)
    seconds, memory, maps = bench.peak(lambda: lens.measure(name, inputs, targets=targets))
    finite = bool(np.isfinite(maps.scores).all())
    label = f"Llama 1B, {bench.sizes.long} tokens, {name}" + (
        "" if targets is None else f", last {len(targets)} targets"
    )
    bench.add(
        Figure(f"{label}: peak memory", memory / 1e9, 40.0, unit=" GB"),
        f"{spelled(seconds)}, scores {maps.scores.shape}",
    )
    bench.add(Figure(f"{label}: seconds", seconds, unit=" s"))
    if not finite:
        raise AssertionError(f"{name}: scores are not finite")


def llama_attention_norm(bench: Bench) -> None:
    """A long text through a model of the 1B shape, bf16."""
    _long(bench, "attention_norm")


def llama_value_zeroing(bench: Bench) -> None:
    """The last targets of the same."""
    _long(bench, "value_zeroing", list(range(-bench.sizes.targets, 0)))


def llama_alti(bench: Bench) -> None:
    """All targets of the same."""
    _long(bench, "alti")


def llama_maps_on_the_device(bench: Bench) -> None:
    """Full maps of the same that stay on the device."""
    lens = bench.llama
    inputs = models.tokens(lens.model, bench.sizes.long)
    for name, bar in (("attention", 0.3), ("attention_norm", 0.5), ("alti", 3.0)):
        run = functools.partial(lens.measure_batch, name, inputs)
        seconds = timed(run, repeats=3)
        label = f"Llama 1B, {bench.sizes.long} tokens, {name} on the device"
        bench.profile(label, run)
        bench.add(Figure(f"{label}: seconds", seconds.best, bar, unit=" s"), str(seconds))


def llama_effective_attention(bench: Bench) -> None:
    """The same; every target sees other sources."""
    try:
        _long(bench, "effective_attention")
    finally:
        bench.__dict__.pop("llama", None)  # the last row that needs it


def _batch(bench: Bench, name: str) -> None:
    sizes, lens = bench.sizes, bench.bert()
    inputs = models.tokens(lens.model, sizes.sentence_length, batch=sizes.sentences)
    singles = [
        {key: value[row : row + 1] for key, value in inputs.items()} for row in range(sizes.calls)
    ]
    batch, alone = lens.measure(name, inputs), lens.measure(name, singles[0])
    assert isinstance(batch, list)
    error = naive.relative_error(batch[0].scores, alone.scores)

    def calls() -> None:
        for single in singles:
            lens.measure(name, single)

    one = timed(lambda: lens.measure(name, inputs), repeats=5, warm_up=False)
    many = timed(calls, repeats=2, warm_up=False).best * sizes.sentences / sizes.calls
    figure = Figure(
        f"{name}, {sizes.sentences} sentences of {sizes.sentence_length} tokens: one call",
        many / one.best,
        20.0,
        True,
        "×",
    )
    why = (
        f"{spelled(many)} for single calls (scaled from {sizes.calls}), {one} for one call,"
        f" difference {error:.0e}"
    )
    bench.add(figure, why)
    bench.profile(f"{name} on a batch", lambda: lens.measure(name, inputs))


def batch_attention_norm(bench: Bench) -> None:
    """Many short sentences in one call against one call each."""
    _batch(bench, "attention_norm")


def batch_alti(bench: Bench) -> None:
    """The same for ALTI."""
    _batch(bench, "alti")


ROWS: list[Callable[[Bench], None]] = [
    value_zeroing,
    hidden_token_attribution,
    alti,
    batch_attention_norm,
    batch_alti,
    llama_attention_norm,
    llama_value_zeroing,
    llama_alti,
    llama_maps_on_the_device,
    llama_effective_attention,
]
