"""Estimate the memory and computation of a measure from tensor shapes alone.

`needed` is the approximate memory beyond the weights. Tensors that a recording keeps up to its
memory budget are not counted, because a recording discards tensors that do not fit. `sure` is a
lower bound. Shapes come from the configuration, so a model on the meta device is enough. If `sure`
exceeds the free memory, mixlens raises an error before the model runs. If memory runs out later,
the error gives the same advice.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from mixlens.contracts import Sizes, Spec
from mixlens.errors import OutOfMemory, plural
from mixlens.measures import spec_of
from mixlens.recording.deferred_checks import MOST_HELD
from mixlens.text.prompts import Given, prompt_of

_FALLBACKS = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 0,
    "vocab_size": 0,
}
_BLOCK = 2**28  # largest bytes of a block or a chunk; they shrink with the free memory
# Without blocks, `needed` is less than this many times the size of the tensors at the end
# (tests/test_estimating.py).
_MARGIN = 2
_SMALLEST = 2**18  # smallest number of elements in a block


def _largest(size: Any) -> int:
    """Return a size from the configuration. If the configuration contains several sizes (PVT has
    one for each stage), return the largest.
    """
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
    words: int  # outputs per token; 0 without a language model head
    number: int  # bytes of one number
    forms_weights: bool  # whether the model's own attention computes n x n weights

    @classmethod
    def of(cls, model: nn.Module) -> Shape:
        """Return the sizes of a model, or of its text model if it has several parts."""
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
    """The estimated memory and computation of one measure on texts of a given length."""

    measure: str
    spec: Spec
    shape: Shape
    tokens: int
    targets: int | None = None  # number of targets; None: all
    layers: int | None = None  # number of layers; None: all
    texts: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)  # of the measure
    recorded: bool = False  # whether a recording of all targets exists

    @property
    def by_rows(self) -> bool:
        """Return whether the measure runs in single-target mode (for a few targets, without whole
        maps).
        """
        return self.targets is not None and (self.spec.row_by_row or self.spec.follows_gradient)

    @property
    def scores(self) -> int:
        """Return the size of the scores in bytes."""
        layers, targets = self.layers or self.shape.layers, self.targets or self.tokens
        lines = 1 if self.spec.gives in ("row", "rows") else layers * targets
        return self.texts * max(4, self.shape.number) * lines * self.tokens

    @property
    def least(self) -> int:
        """Return the minimum memory beyond the weights, in bytes.

        This covers the input of each layer and the attention weights of one layer.
        """
        return self._states + self._weights

    @property
    def needed(self) -> int:
        """Return the approximate memory beyond the weights, in bytes."""
        return self.needed_within(4 * _BLOCK)

    def needed_within(self, available: int) -> int:
        """Return the approximate memory in bytes if `available` bytes are free. Blocks use at most
        a quarter of the free memory.
        """
        words = self.tokens * self.shape.words if self.spec.explains_output else 0
        logits = self.texts * self.shape.number * words * (not self.recorded)
        working = self.texts * self._working(min(_BLOCK, available // 4))
        return logits + self._checks + self._total(working)

    @property
    def sure(self) -> int:
        """Return the memory in bytes that is needed even with the smallest blocks.

        It assumes that logits are computed for one token only, and that texts are processed one
        after the other if the measure allows it.
        """
        working = self._total(self._working(0)) / _MARGIN
        return int(working if self.recorded else max(working, self.least))

    @property
    def _states(self) -> int:
        """Return the bytes of the inputs of all layers, or of two layers if the inputs are not
        kept.
        """
        layers_in_memory = 2 if self.by_rows else self.shape.layers + 1
        return self.texts * self.shape.number * self.tokens * self.shape.d_model * layers_in_memory

    @property
    def _checks(self) -> int:
        """Return the bytes of the tensors that deferred checks keep, including stacked copies."""
        numbers = 2 * self.texts * self.tokens * self.shape.d_model * self.shape.layers
        return 0 if self.by_rows else 2 * self.shape.number * min(numbers, MOST_HELD)

    @property
    def _weights(self) -> int:
        """Return the bytes of one layer's attention weights, or 0 if the weights are not kept as a
        whole.
        """
        maps = self.spec.reads == "attention" and not self.by_rows
        return self.texts * self.shape.number * self.shape.heads * self.tokens**2 * maps

    def _total(self, work: int) -> int:
        """Return the total memory in bytes, including the measure's working memory `work`.

        In single-target mode the measure works during the forward pass, otherwise after the
        recording.
        """
        if self.recorded:
            return self.scores + work
        passing = self.texts * self.shape.number * self._passing(False)
        if self.spec.reads != "attention":  # the measure includes a pass
            passing = 0
        at_once = passing + work if self.by_rows else max(passing + self._weights, work)
        return self._states + self._weights + at_once + self.scores

    def _passing(self, weights: bool) -> int:
        """Return the number of tensor elements of a text in one layer during a forward pass.

        With `weights`, this includes the attention weights before and after the softmax.
        """
        shape, n = self.shape, self.tokens
        return n * (8 * shape.d_model + 2 * shape.d_ff + (2 * shape.heads * n if weights else 0))

    def _working(self, block: int) -> int:
        """Return the measure's working memory for one text, in bytes, with blocks of `block`
        bytes.
        """
        shape, n = self.shape, self.tokens
        # layers are split in float32, and the model's own passes use its precision
        wide = max(4, shape.number) if self.spec.reads == "attention" else shape.number
        copies = 2 if shape.number > 2 else 3  # a softmax of half precision is in float32 too
        weights = copies * shape.heads * n if shape.forms_weights else 0
        graph = shape.layers * n * (12 * shape.d_model + 3 * shape.d_ff + weights)
        targets = (self.targets if self.by_rows else None) or n
        pairs = targets * n  # a block or a chunk is not larger than all of them at once
        chunk = block // 4
        if self.spec.reads == "attention":
            chunk = min(chunk, max(_SMALLEST, pairs * (6 * shape.d_model + 4 * shape.d_ff)))
        if self.spec.memory is None:
            return 0
        defaults = {option.name: option.default for option in self.spec.options}
        sizes = Sizes(
            targets=targets,
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
        """Return the number of multiplications in one forward pass, without the head."""
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
    """Estimate the memory of a measure on texts of this many tokens.

    `targets` and `layers` are numbers of targets and layers; None means all.
    """
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
    """Estimate the memory of recording the inputs of one measure, without computing its scores."""
    return Estimate(
        measure="a recording",
        spec=replace(spec_of(like), gives="row", memory=None),
        shape=Shape.of(model),
        tokens=tokens,
        targets=targets,
        texts=texts,
    )


def estimate_of_prompt(model: nn.Module, tokenizer: Any, prompt: Given) -> Estimate:
    """Estimate the memory of running the model on a prompt with its own attention, without
    recording.
    """
    tokens = len(prompt_of(tokenizer, prompt).ids)
    return replace(estimate_of_recording(model, tokens, targets=1, texts=1), measure="a prompt")


def products_per_second(device: torch.device, dtype: torch.dtype) -> float:
    """Return the number of multiplications per second on a device, timed with one matrix
    product.
    """
    size = 512 if device.type == "cpu" else 4096
    one = torch.ones(size, size, device=device, dtype=dtype)
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        (one @ one)[0, 0].item()
        best = min(best, time.perf_counter() - start)
    return float(size**3 / best)


_SHORTEST = 16  # shortest text worth suggesting, in tokens


def require_room(estimate: Estimate, available: int) -> None:
    """Raise `OutOfMemory` if an estimate exceeds the available bytes. The error suggests what would
    fit.
    """
    if estimate.sure > available:
        raise OutOfMemory(
            f"{_subject(estimate)} needs about {format_bytes(estimate.needed_within(available))}, "
            f"but {format_bytes(available)} are free. {what_fits(estimate, available)}"
        )


def _subject(estimate: Estimate) -> str:
    texts = "" if estimate.texts == 1 else f"{estimate.texts} texts of "
    return f"{estimate.measure} of {texts}{estimate.tokens:,} {plural('token', estimate.tokens)}"


def what_fits(estimate: Estimate, available: int) -> str:
    """Return advice on which targets, layers or precision would make the estimate fit."""
    estimate = replace(estimate, recorded=False)

    def size(candidate: Estimate) -> int:
        return candidate.needed_within(available)

    fewer = replace(estimate, targets=1)
    tries = []
    if estimate.targets is None and fewer.by_rows and size(fewer) <= available:
        alone = (
            "one target" if estimate.spec.gives == "maps" else "one target, in single-target mode,"
        )
        tries.append(f"{alone} takes about {format_bytes(size(fewer))}")
    if (estimate.layers or estimate.shape.layers) > 1 and estimate.spec.gives == "maps":
        one = replace(estimate, layers=1)
        if size(one) <= available:
            tries.append(f"one layer takes about {format_bytes(size(one))}")
    if estimate.shape.number > 2:
        half = replace(estimate, shape=replace(estimate.shape, number=2))
        if size(half) <= available:
            tries.append(f"the model in bfloat16 takes about {format_bytes(size(half))}")
    longest = estimate.tokens
    while longest >= _SHORTEST and size(replace(estimate, tokens=longest)) > available:
        longest //= 2
    if _SHORTEST <= longest < estimate.tokens:
        tries.append(f"a text of {longest:,} tokens fits")
    if not tries:
        return "Fewer targets or layers, half precision or a shorter text would not fit either."
    return "; ".join(tries)[:1].upper() + "; ".join(tries)[1:] + "."


def memory_advice(estimate: Estimate, available: int) -> str:
    """Return the error message for a measure that ran out of memory although its estimate was below
    the free memory.
    """
    needed = estimate.needed_within(available)
    return (
        f"memory ran out: {_subject(estimate)} takes about {format_bytes(needed)} beyond the "
        f"weights{' and the recording' * estimate.recorded}, but {format_bytes(available)} were "
        f"free. {what_fits(estimate, min(available, needed - 1))}"
    )


def format_bytes(size: float) -> str:
    """Format a number of bytes with a unit."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:,.3g} TiB"
