"""Estimate the memory and work of a measure from shapes alone.

`needed` is about what is held at once beyond the weights. What a recording keeps up to its memory
budget is not counted: it is kept only if there is room. `sure` is what cannot be less. Shapes come
from the configuration, so that a model on the meta device will do.

An estimate whose `sure` does not fit is refused before the model runs. If memory runs out after
all, the error says the same.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from mixlens.contracts import Sizes, Spec
from mixlens.errors import MixlensError, OutOfMemory
from mixlens.measures import spec_of
from mixlens.model.placement import is_out_of_memory
from mixlens.text.plurals import plural
from mixlens.text.prompts import Given, prompt_of

_FALLBACKS = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 0,
    "vocab_size": 0,
}
_BLOCK = 2**28  # bytes of a block or a chunk, at most; they shrink with the memory that is free
# Blocks left out, `needed` is less than this many times what tensors held in the end
# (tests/test_estimating.py).
_MARGIN = 2
_SMALLEST = 2**18  # numbers of a block, at least


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
    forms_weights: bool  # does the model's own attention form n x n weights?

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
            forms_weights=getattr(model.config, "_attn_implementation", None) == "eager",
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
    options: Mapping[str, Any] = field(default_factory=dict)  # of the measure
    recorded: bool = False  # is there a recording of all targets already?

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
        """Bytes that must be there at once, beyond the weights: what enters each layer, and the
        attention weights of one.
        """
        return self._states + self._weights

    @property
    def needed(self) -> int:
        """About what is held at once, beyond the weights."""
        return self.needed_within(4 * _BLOCK)

    def needed_within(self, available: int) -> int:
        """The same if so many bytes are free: blocks are at most a quarter of them."""
        words = self.tokens * self.shape.words if self.spec.explains_output else 0
        logits = self.texts * self.shape.number * words * (not self.recorded)
        return logits + self._held(self.texts * self._working(min(_BLOCK, available // 4)))

    @property
    def sure(self) -> int:
        """Bytes without which it will not do, however small the blocks are. Logits may be computed
        for one token alone, and a measure may take texts one after the other.
        """
        held = self._held(self._working(0)) / _MARGIN
        return int(held if self.recorded else max(held, self.least))

    @property
    def _states(self) -> int:
        """Bytes of what enters each layer, or two of them if they are not kept."""
        kept = 2 if self.by_rows else self.shape.layers + 1
        return self.texts * self.shape.number * self.tokens * self.shape.d_model * kept

    @property
    def _weights(self) -> int:
        """Bytes of the attention weights of one layer, if they are taken apart as a whole."""
        maps = self.spec.reads == "attention" and not self.by_rows
        return self.texts * self.shape.number * self.shape.heads * self.tokens**2 * maps

    def _held(self, work: int) -> int:
        """Bytes with so many of them in the hands of the measure: while the model runs if it is by
        rows, else after the recording.
        """
        if self.recorded:
            return self.scores + work
        passing = self.texts * self.shape.number * self._passing(False)
        if self.spec.reads != "attention":  # a pass is part of what the measure does
            passing = 0
        at_once = passing + work if self.by_rows else max(passing + self._weights, work)
        return self._states + self._weights + at_once + self.scores

    def _passing(self, weights: bool) -> int:
        """Numbers of a text on its way through one layer, with attention weights before and after
        the softmax or without.
        """
        shape, n = self.shape, self.tokens
        return n * (8 * shape.d_model + 2 * shape.d_ff + (2 * shape.heads * n if weights else 0))

    def _working(self, block: int) -> int:
        """Bytes of one text in the hands of the measure, with blocks of this many bytes."""
        shape, n = self.shape, self.tokens
        # layers are taken apart in float32, and the model's own passes are in its precision
        wide = max(4, shape.number) if self.spec.reads == "attention" else shape.number
        kept = 2 if shape.number > 2 else 3  # a softmax of half precision is in float32 too
        weights = kept * shape.heads * n if shape.forms_weights else 0
        graph = shape.layers * n * (12 * shape.d_model + 3 * shape.d_ff + weights)
        rows = (self.targets if self.by_rows else None) or n
        pairs = rows * n  # a block is not larger than all of them at once, nor is a chunk
        chunk = block // 4
        if self.spec.reads == "attention":
            chunk = min(chunk, max(_SMALLEST, pairs * (6 * shape.d_model + 4 * shape.d_ff)))
        if self.spec.memory is None:
            return 0
        defaults = {option.name: option.default for option in self.spec.options}
        sizes = Sizes(
            targets=rows,
            sources=n,
            d_model=shape.d_model,
            heads=shape.heads,
            d_ff=shape.d_ff,
            layers=self.layers or shape.layers,
            passing=self._passing(shape.forms_weights) * shape.number / wide,
            graph=graph * shape.number / wide,
            matrix=shape.d_model * shape.d_ff if block else 0,  # not every layer is copied
            block=min(block // 4, max(_SMALLEST, pairs * shape.d_model)),
            chunk=chunk,
            budget=block // 4,
            options={**defaults, **self.options},
        )
        return int(wide * self.spec.memory(sizes))

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
    options: Mapping[str, Any] | None = None,
    recorded: bool = False,
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
        options=options or {},
        recorded=recorded,
    )


def estimate_of_recording(
    model: nn.Module, tokens: int, *, targets: int | None, texts: int, like: str = "attention"
) -> Estimate:
    """A recording that can be read as one measure reads it: no scores, and nothing to compute
    them.
    """
    return Estimate(
        measure="a recording",
        spec=replace(spec_of(like), gives="row", memory=None),
        shape=Shape.of(model),
        tokens=tokens,
        targets=targets,
        texts=texts,
    )


def estimate_of_prompt(model: nn.Module, tokenizer: Any, prompt: Given) -> Estimate:
    """A prompt that the model reads with its own attention, and of which nothing is kept."""
    tokens = len(prompt_of(tokenizer, prompt).ids)
    return replace(estimate_of_recording(model, tokens, targets=1, texts=1), measure="a prompt")


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


_SHORTEST = 16  # tokens of a text that is worth advising


def require_room(estimate: Estimate, available: int) -> None:
    """Refuses an estimate that does not fit into the available bytes, and says what would."""
    if estimate.sure > available:
        raise OutOfMemory(
            f"{_subject(estimate)} needs about {spelled(estimate.needed_within(available))}, and"
            f" {spelled(available)} are free. {what_fits(estimate, available)}"
        )


def _subject(estimate: Estimate) -> str:
    texts = "" if estimate.texts == 1 else f"{estimate.texts} texts of "
    return f"{estimate.measure} of {texts}{estimate.tokens:,} {plural('token', estimate.tokens)}"


def what_fits(estimate: Estimate, available: int) -> str:
    """Targets, layers or a precision with which an estimate fits, in words."""
    estimate = replace(estimate, recorded=False)

    def size(tried: Estimate) -> int:
        return tried.needed_within(available)

    fewer = replace(estimate, targets=1)
    tries = []
    if estimate.targets is None and fewer.by_rows and size(fewer) <= available:
        alone = "one target" if estimate.spec.gives == "maps" else "one target, row by row,"
        tries.append(f"{alone} takes about {spelled(size(fewer))}")
    if (estimate.layers or estimate.shape.layers) > 1 and estimate.spec.gives == "maps":
        one = replace(estimate, layers=1)
        if size(one) <= available:
            tries.append(f"one layer takes about {spelled(size(one))}")
    if estimate.shape.number > 2:
        half = replace(estimate, shape=replace(estimate.shape, number=2))
        if size(half) <= available:
            tries.append(f"the model in bfloat16 takes about {spelled(size(half))}")
    longest = estimate.tokens
    while longest >= _SHORTEST and size(replace(estimate, tokens=longest)) > available:
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
        needed = tried.needed_within(available)
        raise OutOfMemory(
            f"memory ran out: {_subject(tried)} takes about {spelled(needed)} beyond the"
            f" weights{' and the recording' * tried.recorded}, and {spelled(available)} were free."
            f" {what_fits(tried, min(available, needed - 1))}"
        ) from error


def spelled(size: float) -> str:
    """Bytes with a unit."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:,.3g} TiB"
