"""What a measure will need, from shapes alone: memory in bytes, work in products.

`needed` is about what is held at once beyond the weights. What a recording keeps up to its memory
budget is not counted: it is kept only if there is room. `least` is what cannot be less: what
enters each layer, and the attention weights of one layer. An estimate whose `least` does not fit is
refused before the model runs, with what would fit. Shapes come from the configuration, so that a
model on the meta device will do.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from mixlens.contracts import Spec
from mixlens.errors import MixlensError, OutOfMemory
from mixlens.measures import spec_of
from mixlens.recording.memory import is_out_of_memory
from mixlens.recording.prompts import Given, prompt_of

_FALLBACKS = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 0,
    "vocab_size": 0,
}
_SHORTEST = 16  # tokens of a text that is worth advising
_BLOCK = 2**28  # bytes of a block or a chunk, at most


def _largest(size: Any) -> int:
    """A model of several stages (PVT) has one for each."""
    if isinstance(size, dict):  # LXMERT has one for each of its stacks
        size = list(size.values())
    return int(max(size) if isinstance(size, (list, tuple)) else size)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Sizes of a model, from its configuration."""

    d_model: int
    layers: int
    heads: int
    d_ff: int
    words: int  # outputs for each token; 0 without a head for words
    number: int  # bytes of one number

    @classmethod
    def of(cls, model: nn.Module) -> Shape:
        """Of the text part, if there are several."""
        config: Any = getattr(model.config, "text_config", None) or model.config
        width, layers, heads, inner, words = (
            _largest(getattr(config, name, None) or fallback)
            for name, fallback in _FALLBACKS.items()
        )
        has_words = getattr(model, "get_output_embeddings", lambda: None)() is not None
        return cls(
            d_model=width,
            layers=layers,
            heads=heads,
            d_ff=inner or 4 * width,
            words=words if has_words else 0,
            number=next(model.parameters()).element_size(),
        )


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """One measure of one text."""

    measure: str
    spec: Spec
    shape: Shape
    tokens: int
    targets: int | None = None  # how many; None: all
    layers: int | None = None  # how many; None: all
    texts: int = 1

    @property
    def by_rows(self) -> bool:
        """Are a few targets measured without maps?"""
        return self.targets is not None and self.spec.row_by_row

    @property
    def scores(self) -> int:
        """Bytes of the scores."""
        layers, rows = self.layers or self.shape.layers, self.targets or self.tokens
        lines = 1 if self.spec.gives in ("row", "rows") else layers * rows
        return self.texts * max(4, self.shape.number) * lines * self.tokens

    @property
    def least(self) -> int:
        """Bytes that must be there at once, beyond the weights."""
        shape, n = self.shape, self.tokens
        states = n * shape.d_model * (2 if self.by_rows else shape.layers + 1)
        maps = self.spec.reads == "attention" and not self.by_rows
        return self.texts * shape.number * (states + (shape.heads * n**2 if maps else 0))

    @property
    def needed(self) -> int:
        """About what is held at once, beyond the weights."""
        shape, n = self.shape, self.tokens
        rows = self.targets if self.by_rows and self.targets is not None else n
        passing = shape.number * n * (8 * shape.d_model + 2 * shape.d_ff)
        passing += shape.number * n * shape.words if self.spec.explains_output else 0
        if not self.by_rows:  # before and after the softmax
            passing += 2 * shape.number * shape.heads * n**2
        names = {
            "n": rows,
            "sources": n,
            "d_model": shape.d_model,
            "heads": shape.heads,
            "d_ff": shape.d_ff,
            "layers": shape.layers,
            "graph": shape.layers * n * (12 * shape.d_model + 3 * shape.d_ff + 3 * shape.heads * n),
            "block": _BLOCK // 4,
            "chunk": _BLOCK // 4,
            "budget": _BLOCK // 4,
        }
        numbers = eval(self.spec.memory or "0", {"__builtins__": {}, "min": min, "max": max}, names)
        work = passing + max(4, shape.number) * numbers
        return int(self.least + self.scores + self.texts * work)

    @property
    def products(self) -> float:
        """Multiplications of one forward pass, the head left out."""
        shape, n = self.shape, self.tokens
        inside = 4 * shape.d_model**2 + 3 * shape.d_model * shape.d_ff + 2 * n * shape.d_model
        return float(shape.layers) * n * inside


def estimate_of(
    model: nn.Module,
    measure: str,
    tokens: int,
    *,
    targets: int | None = None,
    layers: int | None = None,
    texts: int = 1,
) -> Estimate:
    """A measure of texts of this many tokens, for all targets and layers or this many of them."""
    return Estimate(
        measure=measure,
        spec=spec_of(measure),
        shape=Shape.of(model),
        tokens=tokens,
        targets=targets,
        layers=layers,
        texts=texts,
    )


def estimate_of_prompt(model: nn.Module, tokenizer: Any, prompt: Given) -> Estimate:
    """A prompt that the model reads with its own attention, and of which nothing is kept."""
    tokens = len(prompt_of(tokenizer, prompt).ids)
    return replace(estimate_of(model, "attention", tokens, targets=1, layers=1), measure="a prompt")


def require_room(estimate: Estimate, available: int) -> None:
    """Refuses an estimate that does not fit into the available bytes, and says what would."""
    if estimate.least > available:
        raise OutOfMemory(
            f"{estimate.measure} of {estimate.tokens:,} tokens needs at least"
            f" {spelled(estimate.least)}, and {spelled(available)} are free."
            f" {what_fits(estimate, available)}"
        )


def what_fits(estimate: Estimate, available: int) -> str:
    """Targets, layers or a precision with which an estimate fits, in words."""
    fewer = replace(estimate, targets=1)
    tries = []
    if estimate.targets is None and fewer.by_rows and fewer.needed <= available:
        tries.append(f"one target at a time (targets=[-1]) takes about {spelled(fewer.needed)}")
    if (estimate.layers or estimate.shape.layers) > 1 and estimate.spec.gives == "maps":
        one = replace(estimate, layers=1)
        if one.needed <= available:
            tries.append(f"one layer at a time (layers=[0]) takes about {spelled(one.needed)}")
    if estimate.shape.number > 2:
        half = replace(estimate, shape=replace(estimate.shape, number=2))
        if half.needed <= available:
            tries.append(f"the model in bfloat16 takes about {spelled(half.needed)}")
    longest = estimate.tokens
    while longest >= _SHORTEST and replace(estimate, tokens=longest).needed > available:
        longest //= 2
    if _SHORTEST <= longest < estimate.tokens:
        tries.append(f"a text of {longest:,} tokens fits")
    if not tries:
        return "Fewer targets or layers, half precision or a shorter text would not fit either."
    return "; ".join(tries)[:1].upper() + "; ".join(tries)[1:] + "."


@contextlib.contextmanager
def memory_in_words(estimate: Callable[[], Estimate], available: int) -> Iterator[None]:
    """If memory runs out inside, our error says so and what would fit."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, MixlensError) or not is_out_of_memory(error):
            raise
        tried = estimate()
        raise OutOfMemory(
            f"memory ran out: {tried.measure} of {tried.tokens:,} tokens takes about"
            f" {spelled(tried.needed)} beyond the weights, and {spelled(available)} were free."
            f" {what_fits(tried, min(available, tried.needed - 1))}"
        ) from error


def products_per_second(device: torch.device, dtype: torch.dtype) -> float:
    """How fast a device multiplies, by one product that takes milliseconds."""
    size = 512 if device.type == "cpu" else 4096
    one = torch.ones(size, size, device=device, dtype=dtype)
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        (one @ one)[0, 0].item()
        best = min(best, time.perf_counter() - start)
    return float(size**3 / best)


def spelled(size: float) -> str:
    """Bytes with a unit."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:,.3g} TiB"
