"""What follows the last layer, as a chain of products, norms and activations: found by numbers.

From the hidden state that the output is read off (the first or last token of a classifier, the
explained position of a language model) each step is the module whose input is the present state, or
an activation of it, until the logits are reached. No names are read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mixlens.errors import UnsupportedModel
from mixlens.kernels.chords import chord
from mixlens.kernels.shares import SHIFT
from mixlens.recording.calls import hooks_removed
from mixlens.recording.differences import difference, same_bar
from mixlens.recording.norms import LinearisedNorm, norm_of
from mixlens.recording.projection import affine_map
from mixlens.recording.recording import Recording
from mixlens.replay.intervention import model_output
from mixlens.replay.perceptron import ACTIVATIONS
from mixlens.replay.vector_parts import Rules

_ACTIVATIONS = {**ACTIVATIONS, "tanh": torch.tanh}
Row = Float[Tensor, " width"]


@dataclass(frozen=True)
class Product:
    """z W + b."""

    matrix: Float[Tensor, "d_in d_out"]
    bias: Float[Tensor, " d_out"]

    def whole(self, state: Row) -> Row:
        """The next state."""
        return state @ self.matrix + self.bias

    def parts(self, parts: Tensor, state: Row, rules: Rules) -> Tensor:
        """The next state's parts [source, width]."""
        return rules.shared(parts @ self.matrix, self.bias)


@dataclass(frozen=True)
class Norm:
    """A norm, its sigma held."""

    norm: LinearisedNorm

    def whole(self, state: Row) -> Row:
        """The next state."""
        return self.norm(state)

    def parts(self, parts: Tensor, state: Row, rules: Rules) -> Tensor:
        """The next state's parts [source, width]."""
        made = self.norm.linear(parts) * self.norm.inverse_sigma(state)
        return rules.shared(made, self.norm.shift)


@dataclass(frozen=True)
class Activation:
    """An elementwise function, by its chord from zero."""

    function: Callable[[Tensor], Tensor]

    def whole(self, state: Row) -> Row:
        """The next state."""
        return self.function(state)

    def parts(self, parts: Tensor, state: Row, rules: Rules) -> Tensor:
        """The next state's parts [source, width]."""
        if rules.released:
            return parts * (self.function(state) / (state + SHIFT))
        return parts * chord(self.function, torch.zeros_like(state), state)


Step = Product | Norm | Activation


@dataclass(frozen=True)
class Head:
    """The chain, and where each text is read off."""

    steps: tuple[Step, ...]
    places: tuple[int, ...]

    def logit_parts(
        self, parts: Float[Tensor, "source d_model"], state: Row, rules: Rules
    ) -> Float[Tensor, "source output"]:
        """Each source's part of every logit."""
        for step in self.steps:
            parts, state = step.parts(parts, state, rules), step.whole(state)
        return parts


@torch.no_grad()
def head_chain(
    recording: Recording,
    logits: Tensor,
    positions: Int[Tensor, " batch"] | None,
    lengths: Sequence[int],
) -> Head:
    """The head of a model with one stack; raises `UnsupportedModel` if it is not such a chain.

    `positions` of the explained tokens; None if the model gives one row of logits per text.
    """
    stack = recording.structure.stacks[-1]
    calls = _calls_behind(recording, stack.path)
    last = recording.stack_layers[stack.name][-1].output
    ends = logits.to(last)
    if positions is not None:
        tries = [tuple(int(place) for place in positions)]
        ends = ends[torch.arange(recording.batch), positions]
    else:
        tries = [(0,) * recording.batch, tuple(length - 1 for length in lengths)]
    for places in tries:
        steps = _chain(last[0, places[0]], ends[0], calls, places[0], 0)
        if steps is not None:
            head = Head(steps, places)
            _require_logits(head, last, ends)
            return head
    raise UnsupportedModel(
        "what follows the last layer is not a chain of products, norms and activations of one"
        " token's state, so that its logits cannot be split: use decompx"
    )


def _require_logits(head: Head, last: Tensor, ends: Tensor) -> None:
    for text, place in enumerate(head.places):
        state = last[text, place]
        for step in head.steps:
            state = step.whole(state)
        if not _same(state, ends[text]):
            raise UnsupportedModel(f"the logits of text {text} are not what its head should give")


Call = tuple[nn.Module, Tensor, Tensor]


def _calls_behind(recording: Recording, stack: str) -> list[Call]:
    """Modules without parts, outside the stack, with what they were given and gave back."""
    calls: list[Call] = []
    handles: list[Any] = []

    def left(module: nn.Module, args: tuple[Any, ...], result: Any) -> None:
        if args and isinstance(args[0], Tensor) and isinstance(result, Tensor):
            if args[0].is_floating_point():
                calls.append((module, args[0], result))

    with hooks_removed(handles):
        for path, module in recording.model.named_modules():
            if not path.startswith(stack) and not list(module.children()):
                handles.append(module.register_forward_hook(left))
        model_output(recording, torch.arange(recording.batch), {})
    return calls


def _chain(
    state: Row, end: Row, calls: list[Call], place: int, depth: int
) -> tuple[Step, ...] | None:
    """Steps from a state of the first text to its logits."""
    if _same(state, end):
        return ()
    if depth > 12:
        return None
    for number, (module, given, _) in enumerate(calls):
        row = _row(given, place, state)
        if row is None:
            continue
        before = _step_before(state, row)
        step = None if before is None else _form(module, row)
        if before is None or step is None:
            continue
        rest = _chain(step.whole(row), end, calls[number + 1 :], place, depth + 1)
        if rest is not None:
            return (*before, step, *rest)
    return None


def _step_before(state: Row, row: Row) -> tuple[Step, ...] | None:
    """What leads from the state to what a module was given: nothing, or an activation."""
    if _same(state, row):
        return ()
    for function in _ACTIVATIONS.values():
        if _same(function(state), row):
            return (Activation(function),)
    return None


def _form(module: nn.Module, like: Row) -> Step | None:
    affine = affine_map(module, len(like), like)
    if affine is not None:
        return Product(*affine)
    norm = norm_of(module, like)
    return None if norm is None else Norm(norm)


def _row(tensor: Tensor, place: int, like: Row) -> Row | None:
    """The first text's row: at its place, or the only one."""
    if tensor.shape[-1] != len(like) or tensor.dim() not in (2, 3):
        return None
    row = tensor[0] if tensor.dim() == 2 else tensor[0, place if tensor.shape[1] > place else 0]
    return row.to(like)


def _same(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape:
        return False
    return difference(one[None], other[None]) <= same_bar(one)
