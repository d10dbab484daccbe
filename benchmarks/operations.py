"""Number of torch operations and Python calls that a call starts, and the cost of starting one. For
short inputs, this determines the time on a GPU.

`python -m benchmarks.operations` counts, on the CPU and with very small matrices, what one target
of a short prompt and a batch of short texts start (`-m` puts the folder on the path).
"""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import mixlens
from benchmarks import models
from benchmarks.report import table
from benchmarks.timing import once
from mixlens.recording.deferred_checks import checks_wait

_SMALL: dict[str, Any] = {
    "hidden_size": 48,
    "num_attention_heads": 12,
    "intermediate_size": 64,
    "vocab_size": 100,
}


@dataclass(frozen=True)
class Started:
    """What one call starts."""

    computing: int  # operations of torch that compute or copy something
    views: int  # those that only give a tensor a different shape
    calls: int  # function calls of Python

    def __str__(self) -> str:
        return f"{self.computing} operations, {self.views} views, {self.calls} calls of functions"


class _Operations(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.computing = self.views = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        self.views += func.is_view
        self.computing += not func.is_view
        return func(*args, **(kwargs or {}))


def started(run: Callable[[], Any]) -> Started:
    """Counted in two runs after one that is not counted."""
    run()
    with _Operations() as operations:
        run()
    with cProfile.Profile() as host:
        run()
    calls = int(pstats.Stats(host).total_calls)  # type: ignore[attr-defined]
    return Started(operations.computing, operations.views, calls)


def starting_seconds(device: str, count: int = 2000) -> tuple[float, float]:
    """What starting one operation and one view costs."""
    numbers = torch.zeros(8, 8, device=device)

    def compute() -> None:
        for _ in range(count):
            numbers.add_(1.0)

    def view() -> None:
        for _ in range(count):
            numbers.view(-1)

    compute()
    return min(once(compute) for _ in range(5)) / count, min(once(view) for _ in range(5)) / count


def of_one_target(name: str, layers: int, tokens: int = 12) -> tuple[Started, Started]:
    """A forward pass of a Llama in bf16 with its own attention, and a measure of its last token as
    a GPU takes it: no number is looked at before the end.
    """
    shape = {**_SMALL, "num_key_value_heads": 3, "num_hidden_layers": layers}
    model = models.llama(dtype=torch.bfloat16, device="cpu", **shape)
    model.set_attn_implementation("sdpa")
    lens, inputs = mixlens.Lens(model), models.tokens(model, tokens)

    def measured() -> None:
        lens.measure(name, inputs, targets=[-1])

    measured()  # what is found out about a layer is remembered
    plain: dict[str, Any] = {**inputs, "use_cache": False}
    return started(lambda: models.forward(model, plain)), started(measured)


def of_one_output(name: str, layers: int, tokens: int = 12) -> tuple[Started, Started]:
    """A forward pass of a Llama in bf16 with a head, and a measure of its last token that explains
    the word after it.
    """
    shape = {**_SMALL, "num_key_value_heads": 3, "num_hidden_layers": layers}
    base = models.llama(dtype=torch.bfloat16, device="cpu", **shape)
    base.set_attn_implementation("sdpa")
    model, tokenizer, _ = models.with_a_head(base)
    lens, inputs = mixlens.Lens(model, tokenizer), models.tokens(model, tokens)

    def measured() -> None:
        lens.measure(name, inputs, position=-1, targets=[-1])

    measured()
    plain: dict[str, Any] = {**inputs, "use_cache": False, "logits_to_keep": 1}
    return started(lambda: models.forward(model, plain)), started(measured)


def of_short_texts(name: str, layers: int) -> tuple[Started, Started]:
    """A forward pass of short texts through a BERT, and a measure of them as a corpus run takes
    it: the checks wait for the end of the batch.
    """
    model = models.bert(dtype=torch.float32, device="cpu", num_hidden_layers=layers, **_SMALL)
    lens, inputs = mixlens.Lens(model), models.tokens(model, 9, batch=32)

    def measured() -> None:
        with checks_wait():
            lens.measure_batch(name, inputs)

    measured()
    return started(lambda: models.forward(model, inputs)), started(measured)


def _lines(what: str, names: tuple[str, ...], count: Any, layers: int) -> list[list[str]]:
    counted = {name: count(name, layers) for name in names}
    rows = {"forward pass": counted[names[0]][0], **{n: call for n, (_, call) in counted.items()}}
    return [
        [f"{what}: {name}", f"{row.computing:,}", f"{row.views:,}", f"{row.calls:,}"]
        for name, row in rows.items()
    ]


_LONG = ("effective_attention", "flow_routes")


def main() -> None:
    long = partial(of_one_target, tokens=48)  # more tokens than a head has dimensions
    lines = [
        *_lines("32 layers, one target of 48", _LONG, long, layers=32),
        *_lines(
            "32 layers, one target", ("attention_norm", "value_zeroing"), of_one_target, layers=32
        ),
        *_lines("32 layers, one output", ("attention_gradient",), of_one_output, layers=32),
        *_lines(
            "12 layers, 32 texts of 9 tokens",
            ("attention", "attention_norm"),
            of_short_texts,
            layers=12,
        ),
    ]
    print(table(["one call", "operations", "views", "calls of functions"], lines))


if __name__ == "__main__":
    main()
