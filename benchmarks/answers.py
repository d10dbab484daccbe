"""Cost of an answer of many tokens as one span, in forward passes of its text.

    python -m benchmarks.answers                    the SmolLM2 shape on a CPU
    python -m benchmarks.answers --device cuda      the 8B shape in bfloat16

`lens.answer` is everything beyond generation: words, sentences and the answer by the default
method, for a given answer. Everything takes turns in one process. If FlashTrace is installed, its
numbers come next to ours: the span of the answer, and one hop more.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import time
from collections.abc import Callable
from typing import Any

import torch

import mixlens
from benchmarks import models
from benchmarks.gpu_targets import SHAPE
from benchmarks.report import Figure, say, table
from benchmarks.timing import Timing, in_turns

SMALL = {
    "hidden_size": 576,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "intermediate_size": 1536,
}
BARS = {"attention_norm": 1.4, "alti": 1.4, "flow_routes": 1.9, "one hop more": 0.9}
CPU_BARS = {"lens.answer": 4.0}  # for an answer of 60 tokens after a prompt of 1,500
EXTRA_GIB = 4.0


def _forward(lens: mixlens.Lens, inputs: Any) -> Callable[[], None]:
    def run() -> None:
        with torch.no_grad():
            lens.model(**inputs, use_cache=False)

    return run


def _ours(lens: mixlens.Lens, inputs: Any, answer: int) -> dict[str, Callable[[], Any]]:
    """Spans of the last tokens, and hops through as many tokens before them."""
    count = int(inputs["input_ids"].shape[1])
    targets = list(range(count - answer - 1, count - 1))
    before = list(range(count - 2 * answer - 1, count - answer - 1))

    def span(name: str) -> Callable[[], Any]:
        return lambda: lens.measure(name, inputs, targets=targets, span="sum")

    def hops(number: int) -> Callable[[], Any]:
        return lambda: lens.hops(inputs, answer=targets, reasoning=before, hops=number)

    names = ("attention_norm", "alti", "flow_routes", "contribution_weights")
    return {**{name: span(name) for name in names}, "hops 1": hops(1), "hops 2": hops(2)}


def _spelled(lens: mixlens.Lens, inputs: Any) -> tuple[Any, Any, list[str]]:
    """The model with a head, its tokenizer, and the words of the text."""
    model, tokenizer, words = models.with_a_head(lens.model)
    return model, tokenizer, [words[token] for token in inputs["input_ids"][0].tolist()]


def _answer(lens: mixlens.Lens, inputs: Any, answer: int) -> dict[str, Callable[[], Any]]:
    """The answer of the last tokens, whose prompt has 8 documents."""
    model, tokenizer, spelled = _spelled(lens, inputs)
    whole, prompt = mixlens.Lens(model, tokenizer), spelled[:-answer]
    size = len(prompt) // 8
    documents = [" ".join(prompt[at : at + size]) for at in range(0, 8 * size, size)]
    text, given = " ".join(prompt), " " + " ".join(spelled[-answer:])
    return {"lens.answer": lambda: whole.answer(text, documents=documents, answer=given)}


def _theirs(lens: mixlens.Lens, inputs: Any, answer: int) -> dict[str, Callable[[], Any]]:
    """FlashTrace on the same tokens, which a tokenizer of one word for each token gives it."""
    if importlib.util.find_spec("flashtrace") is None:
        return {}
    model, tokenizer, spelled = _spelled(lens, inputs)
    prompt, rest = spelled[: -2 * answer], spelled[-2 * answer :]
    flashtrace = importlib.import_module("flashtrace")
    tracer = flashtrace.FlashTrace(model, tokenizer, recompute_attention=True)

    def trace(hops: int) -> Callable[[], Any]:
        return lambda: tracer.trace(
            prompt=" ".join(prompt),
            target=" ".join(rest),
            output_span=(answer, 2 * answer - 1),
            reasoning_span=(0, answer - 1),
            hops=hops,
            method="flashtrace" if hops else "ifr-span",
        )

    return {"FlashTrace, span": trace(0), "FlashTrace, hops 1": trace(1)}


def _peak(run: Callable[[], Any]) -> float:
    """GiB that a call needs on the GPU."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() / 2**30


def _lines(
    times: dict[str, Timing], peaks: dict[str, float], answer: int, bars: bool
) -> list[list[str]]:
    plain = times["forward pass"].best
    costs = {name: timing.best / plain for name, timing in times.items()}
    costs["one hop more"] = costs["hops 2"] - costs["hops 1"]
    lines = []
    for name, cost in costs.items():
        figure = Figure(name, cost, BARS.get(name) if bars else CPU_BARS.get(name))
        above = peaks[name] - peaks["forward pass"] if name in peaks else None
        memory = "" if above is None else f"{above:.2f} GiB"
        lines.append([name, str(answer), figure.shown, figure.bar_shown, figure.verdict, memory])
    return lines


def main() -> None:
    """Print one table for each length of an answer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tokens", type=int, help="default: 8192 on a GPU, 1560 on a CPU")
    parser.add_argument("--answers", type=int, nargs="+", help="default: 64 512")
    parser.add_argument("--layers", type=int, help="layers of the model, if fewer")
    parser.add_argument("--repeats", type=int, default=3)
    chosen = parser.parse_args()
    on_gpu = chosen.device != "cpu"
    shape = dict(SHAPE if on_gpu else SMALL, max_position_embeddings=2**15)
    if chosen.layers:
        shape["num_hidden_layers"] = chosen.layers
    dtype = torch.bfloat16 if on_gpu else torch.float32
    model = models.llama(dtype=dtype, device=chosen.device, **shape)
    model.set_attn_implementation("sdpa")
    lens = mixlens.Lens(model)
    inputs = models.tokens(model, chosen.tokens or (8192 if on_gpu else 1560))
    for answer in chosen.answers or [64, 512]:
        runs = {"forward pass": _forward(lens, inputs), **_ours(lens, inputs, answer)}
        runs |= _answer(lens, inputs, answer) | _theirs(lens, inputs, answer)
        clock = time.perf_counter if on_gpu else time.process_time  # others may use the CPU too
        times = in_turns(runs, repeats=chosen.repeats, clock=clock)
        peaks = {name: _peak(run) for name, run in runs.items()} if on_gpu else {}
        head = ["", "answer tokens", "forward passes", "bar", "", "memory above a forward pass"]
        say(table(head, _lines(times, peaks, answer, bars=on_gpu)))


if __name__ == "__main__":
    main()
