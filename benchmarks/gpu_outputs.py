"""Rows of the GPU table for outputs, generated text, batches, and measures other than those of
`gpu_targets`: costs in forward passes with the model's own sdpa attention.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import mixlens
from benchmarks import models
from benchmarks.gpu_rows import Bench
from benchmarks.gpu_targets import large_lens
from benchmarks.report import Figure
from benchmarks.timing import in_turns, once, timed

SHORT = {"effective_attention": 5.0, "attention_gradient": 4.0, "flow_routes": 3.0}
BATCH = {"attention": 1.4, "attention_norm": 1.6}
Run = Callable[[], Any]


def _headed(bench: Bench) -> mixlens.Lens:
    """The same model with a head, and a tokenizer of one word for each token."""
    model, tokenizer, _ = models.with_a_head(large_lens(bench).model)
    return mixlens.Lens(model, tokenizer)


def _forward(lens: mixlens.Lens, inputs: models.Inputs, **options: Any) -> Run:
    def run() -> None:
        with torch.no_grad():
            lens.model(**inputs, use_cache=False, **options)

    return run


def _compare(
    bench: Bench, label: str, plain: Run, runs: dict[str, tuple[Run, float | None]], repeats: int
) -> None:
    """Add the cost of each run in forward passes, and its memory above one."""
    base = bench.peak(plain)[1]
    for name, (run, bar) in runs.items():
        times = in_turns({"forward": plain, "call": run}, repeats=repeats)
        cost = times["call"].best / times["forward"].best
        above = (bench.peak(run)[1] - base) / 2**30
        why = f"call {times['call']}, forward pass {times['forward']}, {above:.2f} GiB above it"
        bench.add(Figure(f"{label}, {name}: forward passes", cost, bar), why)
        bench.profile(f"{label}, {name}", run)


def other_measures_of_a_short_prompt(bench: Bench) -> None:
    """One target of a short prompt: measures with factorisations, gradients and L1 norms."""
    lens = _headed(bench)
    tokens = 1024 if bench.sizes.long > 1000 else 24
    inputs = models.tokens(lens.model, tokens)

    def measure(name: str) -> Run:
        if name == "attention_gradient":
            return lambda: lens.measure(name, inputs, position=-1, targets=[-1])
        return lambda: lens.measure(name, inputs, targets=[-1])

    runs: dict[str, tuple[Run, float | None]] = {
        name: (measure(name), bar) for name, bar in SHORT.items()
    }
    plain = _forward(lens, inputs, logits_to_keep=1)
    _compare(bench, f"Llama 8B, {tokens} tokens, one target", plain, runs, 10)


def outputs_of_a_prompt(bench: Bench) -> None:
    """One word, and the gradient of an answer."""
    lens = _headed(bench)
    tokens, answer = (8192, 64) if bench.sizes.long > 1000 else (40, 4)
    inputs = models.tokens(lens.model, tokens)
    span = (tokens - answer, tokens)
    runs: dict[str, tuple[Run, float | None]] = {
        "flow_routes of one target": (
            lambda: lens.measure("flow_routes", inputs, targets=[-1]),
            1.9,
        ),
        f"gradient of an answer of {answer} tokens": (
            lambda: lens.measure("gradient_norm", inputs, answer=span),
            3.3,
        ),
    }
    plain = _forward(lens, inputs, logits_to_keep=1)
    _compare(bench, f"Llama 8B, {tokens} tokens", plain, runs, 3)
    word: dict[str, tuple[Run, float | None]] = {
        "alti_logit of one word": (lambda: lens.measure("alti_logit", inputs, position=-1), 30.0)
    }
    _compare(bench, f"Llama 8B, {tokens} tokens", plain, word, 1)


def generated_text(bench: Bench) -> None:
    """Generation with a recording against `model.generate`, the first call and later ones."""
    lens = _headed(bench)
    tokens, new = (8000, 32) if bench.sizes.long > 1000 else (40, 4)
    prompt = " ".join(f"w{number % 1000 + 5}" for number in range(tokens))
    inputs = lens.tokenizer(prompt, return_tensors="pt").to(lens.model.device)
    options: dict[str, Any] = {"max_new_tokens": new, "min_new_tokens": new, "do_sample": False}
    model: Any = lens.model

    def theirs() -> None:
        model.generate(**inputs, **options)

    def ours() -> None:
        lens.generate(prompt, **options)

    once(theirs)
    plain = once(theirs)
    first = once(ours)
    times = in_turns({"theirs": theirs, "ours": ours}, repeats=3, warm_up=False)
    label = f"Llama 8B, {new} tokens generated after {tokens}"
    why = f"{times['ours']} against {times['theirs']} of model.generate"
    bench.add(Figure(f"{label}: times model.generate", _ratio(times), 1.3), why)
    discovery = first - times["ours"].best
    bench.add(
        Figure(f"{label}: first call beyond later ones", discovery, 2.0, unit=" s"),
        f"first call {first:.2f} s, model.generate {plain:.2f} s",
    )
    bench.profile(label, ours)


def _ratio(times: Any) -> float:
    return float(times["ours"].best / times["theirs"].best)


def decompositions(bench: Bench) -> None:
    """DecompX of a whole text, next to its lower limit."""
    lens = _headed(bench)
    tokens = 512 if bench.sizes.long > 1000 else 16
    inputs = models.tokens(lens.model, tokens)
    plain = timed(_forward(lens, inputs), repeats=5)
    lens.measure("decompx", models.tokens(lens.model, 16))  # warm-up
    seconds, peak, _ = bench.peak(lambda: lens.measure("decompx", inputs))
    floor = _products_of_pairs(lens, bench, tokens)
    label = f"Llama 8B, {tokens} tokens, decompx"
    bench.add(
        Figure(f"{label}: times its lower limit", seconds / floor, 2.0),
        f"call {seconds:.1f} s, {peak / 2**30:.1f} GiB, lower limit {floor:.1f} s",
    )
    bench.add(Figure(f"{label}: forward passes", seconds / plain.best), str(plain))
    bench.profile(label, lambda: lens.measure("decompx", inputs))


def _products_of_pairs(lens: mixlens.Lens, bench: Bench, tokens: int) -> float:
    """Seconds of the matrix products that any exact form needs: the vectors of all pairs of target
    and visible source through W_V, W_O and the MLP of each layer, in float32, in which mixlens
    decomposes models in half precision. A chunk of one layer is timed and scaled.
    """
    config: Any = lens.model.config
    pairs, d_model, d_mlp = tokens * (tokens + 1) // 2, config.hidden_size, config.intermediate_size
    chunk, d_values = min(pairs, 16384), config.num_key_value_heads * config.head_dim
    vectors = torch.randn(chunk, d_model, device=bench.device)
    inner = torch.randn(chunk, d_mlp, device=bench.device)
    shapes = [(vectors, columns) for columns in (d_values, d_model, d_mlp, d_mlp)]
    shapes.append((inner, d_model))
    weights = [torch.randn(x.shape[1], columns, device=bench.device) for x, columns in shapes]

    def run() -> None:
        for (x, _), weight in zip(shapes, weights, strict=True):
            x @ weight

    layers = int(config.num_hidden_layers)
    return timed(run, repeats=5).best * pairs / chunk * layers


def batch_on_the_device(bench: Bench) -> None:
    """A batch of short texts, whose maps stay on the device."""
    lens = bench.bert()
    model: Any = lens.model
    model.set_attn_implementation("sdpa")
    texts, length = (64, 128) if bench.sizes.long > 1000 else (4, 8)
    inputs = models.tokens(lens.model, length, batch=texts)
    runs: dict[str, tuple[Run, float | None]] = {
        name: (_on_the_device(lens, name, inputs), bar) for name, bar in BATCH.items()
    }
    plain = lambda: models.forward(lens.model, inputs)  # noqa: E731
    _compare(bench, f"BERT base, {texts} texts of {length} tokens", plain, runs, 20)


def _on_the_device(lens: mixlens.Lens, name: str, inputs: models.Inputs) -> Run:
    return lambda: lens.measure_batch(name, inputs)


ROWS = [
    batch_on_the_device,
    other_measures_of_a_short_prompt,
    outputs_of_a_prompt,
    generated_text,
    decompositions,
]
