"""Compute the logits of an answer while some attention edges are blocked.

An edge connects a source token to a position that produces a token of the answer, in one layer. A
blocked edge gets an attention score of minus infinity before the softmax.

In a causal model, blocking does not change the hidden states before the first blocked target.
mixlens therefore re-runs only the positions of the answer, on keys and values cached from one pass
over the whole text, with one batch entry per set of edges. `BlockedAnswers` verifies the cache on
the text itself: with and without blocked edges, the logits must match those of a pass over the
whole text. If they do not match, mixlens runs the whole text for every set of edges. For
encoder–decoder models, in which mixlens blocks cross-attention, it always runs the whole text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor, nn

from mixlens.answers.answered_prompt import AnsweredPrompt
from mixlens.answers.prefix_reuse import KeysAndValues, keys_and_values, run_on_cache
from mixlens.capture.layer_calls import forward
from mixlens.capture.native_attention import NothingVisible, hidden_pairs
from mixlens.contracts import AttentionKind
from mixlens.errors import InvalidInput, UnsupportedModel
from mixlens.kernels.differences import difference, rounding
from mixlens.measuring.batching import halve_until_it_fits, plan_batches
from mixlens.model.restore_model import restore_on_exit
from mixlens.recording.batch_independence import (
    DependentTexts,
    require_independent_texts,
    text_lengths,
)
from mixlens.replay.explained_output import logits_of
from mixlens.structure.model_discovery import model_structure
from mixlens.structure.model_structure import ModelStructure
from mixlens.text.generation import with_mask
from mixlens.text.inputs import normalise_inputs
from mixlens.text.tokens import whole_numbers


@dataclass(frozen=True)
class Edges:
    """A set of attention edges: from `sources` to the positions that produce the answer, in
    `layers`.

    If `everywhere` is True, the edges lead to all tokens except the sources themselves.
    """

    name: str
    sources: tuple[int, ...]
    layers: frozenset[int]
    everywhere: bool = False


class BlockedAnswers:
    """Compute the logits of an answer while sets of edges are blocked."""

    def __init__(
        self,
        model: nn.Module,
        prompt: AnsweredPrompt,
        *,
        reuse: bool = True,
        batch_size: int | None = None,
    ) -> None:
        self.model, self.prompt = model, prompt
        self.last = len(prompt.answer_ids)
        self.tensors = _tensors(model, prompt)
        structure = model_structure(model, self.tensors)
        self.backend = structure.backend
        self.calls, self.total = _attention_calls(model, structure)
        self.layers = len(self.calls)
        self.batch_size = batch_size if self._may_be_batched() else 1
        with torch.no_grad(), restore_on_exit(model):
            self.whole: Tensor = logits_of(forward(model, self.tensors))[0, -self.last :]
        text = self.tensors["input_ids"][0].tolist()
        self._cache = keys_and_values(model, text, self.last) if reuse else None
        self._verified = False

    @property
    def reuses(self) -> bool:
        """Return whether the logits of the answer are computed from cached keys and values."""
        return self._cache is not None

    def run(self, edges: Sequence[Edges]) -> Iterator[Tensor]:
        """Yield the logits [token, vocabulary] of the answer for each set of blocked edges."""
        if any(each.everywhere for each in edges):
            self._cache = None  # tokens in front of the answer change
        if self._cache is not None and not self._verified:
            self._cache = self._cache if self._is_right(self._cache, edges[0]) else None
            self._verified = True

        def run(places: list[int]) -> list[Tensor]:
            return list(self._batch([edges[place] for place in places]))

        lengths = [int(self.tensors["input_ids"].shape[1])] * len(edges)
        for places in plan_batches(lengths, self.model, batch_size=self.batch_size):
            yield from halve_until_it_fits(run, places)

    def _batch(self, edges: Sequence[Edges]) -> Tensor:
        if self._cache is not None:
            return self._on_cache(self._cache, edges)
        return self._in_whole_passes(edges)

    @torch.no_grad()
    def _on_cache(self, cache: KeysAndValues, edges: Sequence[Edges]) -> Tensor:
        before, copies = len(cache.ids) - self.last, max(1, len(edges))
        ids = torch.tensor([cache.ids[before:]]).expand(copies, -1)
        with self._block(edges):
            return run_on_cache(self.model, ids, cache.first(before, copies), before, self.last)

    @torch.no_grad()
    def _in_whole_passes(self, edges: Sequence[Edges]) -> Tensor:
        copies = max(1, len(edges))
        tensors = {
            name: value.expand(copies, *value.shape[1:]) if isinstance(value, Tensor) else value
            for name, value in self.tensors.items()
        }
        with self._block(edges), restore_on_exit(self.model):
            return logits_of(forward(self.model, tensors))[:, -self.last :]

    def _is_right(self, cache: KeysAndValues, edges: Edges) -> bool:
        """Return whether logits from cached keys and values match those of passes over the whole
        text.
        """
        bar = rounding(self.whole)
        free = self._on_cache(cache, [])[0]
        if not difference(free, self.whole) <= bar:
            return False
        return difference(self._on_cache(cache, [edges]), self._in_whole_passes([edges])) <= bar

    def _block(self, edges: Sequence[Edges]) -> Any:
        return _Blocking(self, edges)

    def _may_be_batched(self) -> bool:
        pair = {
            name: value.expand(2, *value.shape[1:]) if isinstance(value, Tensor) else value
            for name, value in self.tensors.items()
        }
        try:
            require_independent_texts(self.model, pair, text_lengths(pair), None, output=True)
        except DependentTexts:
            return False
        return True


class _Blocking:
    """Context manager that blocks one set of edges in each text of the batch."""

    def __init__(self, answers: BlockedAnswers, edges: Sequence[Edges]) -> None:
        self.answers, self.edges = answers, edges
        self.calls = 0  # attention calls so far
        self._context = hidden_pairs(self._hide, answers.backend)
        self._masks: dict[tuple[Any, ...], Tensor] = {}

    def __enter__(self) -> None:
        self._context.__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._context.__exit__(None, None, None)
        if isinstance(error, NothingVisible):
            names = ", ".join(sorted({repr(each.name) for each in self.edges}))
            raise InvalidInput(
                "In some layer, a position that produces the answer sees only one of the segments"
                f" {names}. Its attention would be undefined if that segment were blocked. Choose"
                " smaller segments."
            ) from None
        name = type(self.answers.model).__name__
        if error is None and not self.calls:
            raise UnsupportedModel(
                f"{name} computes its attention without a softmax of scores [batch, head, target,"
                " source] that mixlens can change. mixlens can read its attention weights, but"
                " cannot hide tokens, as knockout and head fitting require. Use"
                " `lens.leave_one_out`."
            )
        if error is None and self.calls != self.answers.total:
            raise UnsupportedModel(
                f"{name} called {self.calls} attention functions, but its structure has"
                f" {self.answers.total}, so mixlens cannot tell its layers apart."
                " Use `lens.leave_one_out`."
            )

    def _hide(self, number: int, targets: int, sources: int) -> Tensor | None:
        self.calls += 1
        layer = self.answers.calls.get(number)
        active = tuple(layer in each.layers for each in self.edges)
        if layer is None or not any(active):
            return None
        key = (active, targets, sources)
        if key not in self._masks:
            self._masks[key] = self._pairs(*key)
        return self._masks[key]

    def _pairs(
        self, active: Sequence[bool], targets: int, sources: int
    ) -> Bool[Tensor, "batch target source"]:
        pairs = torch.zeros(len(self.edges), targets, sources, dtype=torch.bool)
        first = targets - self.answers.last
        for number, (each, is_active) in enumerate(zip(self.edges, active, strict=True)):
            if is_active:
                pairs[number, 0 if each.everywhere else first :, list(each.sources)] = True
            if each.everywhere:  # else the row of the first token may be empty
                pairs[number, list(each.sources), list(each.sources)] = False
        return pairs


def _tensors(model: nn.Module, prompt: AnsweredPrompt) -> dict[str, Any]:
    """Return model inputs that contain the prompt and the answer without its last token."""
    if prompt.start is None:
        ids = [*prompt.ids, *prompt.answer_ids[:-1]]
        return normalise_inputs(model, with_mask(model, {"input_ids": torch.tensor([ids])}))
    begun = [prompt.start, *prompt.answer_ids[:-1]]
    tensors = with_mask(model, {"input_ids": torch.tensor([prompt.ids])})
    return normalise_inputs(model, {**tensors, "decoder_input_ids": torch.tensor([begun])})


def _attention_calls(model: nn.Module, structure: ModelStructure) -> tuple[dict[int, int], int]:
    """Return the layer of each attention call that reads the prompt, and the total number of calls.

    The layers are returned as a dict from the index of the call in the forward pass to the layer
    index. In encoder–decoder models, only cross-attention reads the prompt.
    """
    stack = structure.calls[-1][0]
    kind = AttentionKind.CROSS if stack.has_cross else AttentionKind.SELF
    calls: dict[int, int] = {}
    number = 0
    for each, index in structure.calls:
        for site in each.layers[index].sites:
            if each is stack and site.kind is kind:
                calls[number] = index
            number += 1
    without = [path for path in structure.left_out if path.rpartition(".")[0] == stack.path]
    layers = len(stack.layers) + len(without)
    if without or sorted(calls.values()) != list(range(layers)):
        raise UnsupportedModel(
            f"{type(model).__name__} has {layers} layers, and attention to the prompt in"
            f" {len(calls)} of them. The others also carry the prompt to the answer, so a knockout"
            " would be misleading. Use `lens.leave_one_out`."
        )
    return calls, number


def window_layers(layers: int, windows: int | str | Sequence[Collection[int]]) -> list[list[int]]:
    """Return the layers of each window.

    If `windows` is a width, there is one window of this width around each layer, as in Geva et al.
    2023.
    """
    if isinstance(windows, str):
        if windows != "all":
            raise InvalidInput(f"windows={windows!r} is unknown. Pass 'all', a width, or layers.")
        return [list(range(layers))]
    if isinstance(windows, (int, np.integer, bool)):
        if isinstance(windows, bool) or windows < 1:
            raise InvalidInput(f"windows={windows} is out of range. Pass a width of at least 1.")
        below, above = windows // 2, windows - windows // 2
        return [
            list(range(max(0, layer - below), min(layers, layer + above)))
            for layer in range(layers)
        ]
    try:
        several = [list(window) for window in windows]
    except TypeError:
        raise InvalidInput(
            f"windows={windows!r} is not a width or the layers of each window. Pass [[0, 1], [2]]"
            " for two windows."
        ) from None
    if not several or not all(several):
        raise InvalidInput("A window has no layers. Pass at least one layer for each window.")
    layer_lists = [
        sorted(set(whole_numbers(window, "the layers of a window") or [])) for window in several
    ]
    for layer in (layer for window in layer_lists for layer in window):
        if not 0 <= layer < layers:
            raise InvalidInput(f"Layer {layer} is out of range (0–{layers - 1}).")
    return layer_lists
