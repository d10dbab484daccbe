"""Read the head of a model as a chain of matrix products, norms and activations.

The chain starts at the hidden state from which the output is computed: the first or last token in a
classifier, or the explained position in a language model. From there, mixlens repeatedly looks for
a module whose input is the current state, or an activation of this state, and continues with the
output of that module, until the logits are reached. At the end, the logits may be multiplied by a
number (Cohere, Granite) or capped by a tanh (Gemma 2). Modules are not identified by name.

To find the chain, mixlens runs the model on at most a dozen tokens of the text. The chain is cached
until the weights change. Each time it is used, its result is compared with the recorded logits.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mixlens.capture.layer_calls import hooks_removed, layer_calls
from mixlens.errors import UnsupportedModel
from mixlens.kernels.chunks import upcast_tensor
from mixlens.kernels.differences import ROUNDING, difference, rounding, same_bar
from mixlens.model.readable_weights import make_readable
from mixlens.model.session import ModuleCache
from mixlens.recording.recording import Recording
from mixlens.replay.head_steps import Activation, Head, Norm, Product, Row, Step
from mixlens.replay.mlp import ACTIVATIONS
from mixlens.structure.layer_structure import affine_map
from mixlens.structure.model_discovery import likeness
from mixlens.structure.norms import norm_of
from mixlens.structure.probe import short_probe
from mixlens.text.input_checks import is_plain_text

_ACTIVATIONS = {**ACTIVATIONS, "tanh": torch.tanh}
Link = str | Activation  # a module by its path, or a function without one
_FIRST, _LAST = 0, -1


@dataclass(frozen=True)
class _Chain:
    links: tuple[Link, ...]
    place: int  # token that a classifier reads: the first or the last


@torch.no_grad()
def head_chain(
    recording: Recording,
    logits: Tensor,
    positions: Int[Tensor, "batch place"] | None,
    lengths: Sequence[int],
) -> Head:
    """Return the head of a model with one stack. Raise `UnsupportedModel` if the head is not a
    chain of products, norms and activations.

    `positions` are the positions of the explained logits, or None if the model has one vector of
    logits per text.
    """
    chain = _known.of(
        recording.model, likeness(recording.inputs), lambda: _discover_chain(recording)
    )
    if chain is None:
        raise UnsupportedModel(
            "the steps after the last layer are not a chain of products, norms and "
            "activations of one token's state, so the logits cannot be split. Use a layer "
            "measure, or blank_out"
        )
    if positions is not None:
        places = tuple(tuple(text_places) for text_places in positions.tolist())
    else:
        places = tuple((0 if chain.place == _FIRST else length - 1,) for length in lengths)
    states = _final_states(recording, places)
    steps = tuple(_steps(recording.model, chain.links, states, logits.dtype))
    head = Head(steps, places, states)
    for number in range(len(places[0])):  # one at a time: a vocabulary is wide
        ends = logits if positions is None else recording.token_logits(logits, positions[:, number])
        for text in range(len(places)):
            computed = head.logits(states[text, number])
            if not difference(computed[None], ends[text][None].to(states)) <= rounding(logits):
                raise UnsupportedModel(
                    f"the logits of text {text} differ from the logits that the steps of the head "
                    "give, so they cannot be split. Use a layer measure, or blank_out"
                )
    return head


_known: ModuleCache[_Chain | None] = ModuleCache()


def _final_states(
    recording: Recording, places: Sequence[Sequence[int]]
) -> Float[Tensor, "batch place d_model"]:
    """Return the outputs of the last layer at these positions."""
    if recording.final_states is not None:
        assert recording.logits_at is not None
        positions = recording.logits_at.tolist()
        indices = [[positions.index(place) for place in text_places] for text_places in places]
        return torch.stack(
            [recording.final_states[i, text_places] for i, text_places in enumerate(indices)]
        )
    last = recording.stack_layers[recording.structure.stacks[-1].name][-1].output
    return torch.stack([last[text, list(text_places)] for text, text_places in enumerate(places)])


def _steps(
    model: nn.Module, links: tuple[Link, ...], like: Tensor, dtype: torch.dtype
) -> Iterator[Step]:
    width = int(like.shape[-1])
    for link in links:
        if isinstance(link, Activation):
            yield link
            continue
        step = _form(model.get_submodule(link), width, like, dtype)
        assert step is not None  # it was one when the chain was found, and weights are the same
        width = int(step.matrix.shape[1]) if isinstance(step, Product) else width
        yield step


def _form(module: nn.Module, width: int, like: Tensor, dtype: torch.dtype) -> Product | Norm | None:
    """Return the affine map or norm that a module computes in this dtype, or None if it is
    neither.
    """
    module = make_readable(module, dtype)
    on_device = like.to(next((weight.device for weight in module.parameters()), like.device))
    norm = norm_of(module, on_device.new_zeros(width))
    if norm is not None:  # checked first: in half precision a norm may pass for a product
        return Norm(norm.to(like))
    affine = affine_map(module, width, on_device)
    return None if affine is None else Product(affine[0].to(like), affine[1].to(like))


# ---------------------------------------------------------------------------------------- discovery


Call = tuple[str, nn.Module, Tensor]


def _discover_chain(recording: Recording) -> _Chain | None:
    inputs = recording.inputs
    if is_plain_text(inputs):
        inputs = short_probe(inputs, recording.model).inputs
    calls, last, logits = _calls_behind(recording, inputs)
    for place in (_LAST,) if logits.dim() == 3 else (_FIRST, _LAST):
        end = logits[0, place] if logits.dim() == 3 else logits[0]
        links = _ChainSearch(calls, end, place).links(upcast_tensor(last[0, place]), 0, 0)
        if links is not None and any(isinstance(link, str) for link in links):
            return _Chain(links, place)
    return None


def _calls_behind(recording: Recording, inputs: Any) -> tuple[list[Call], Tensor, Tensor]:
    """Return the calls of all leaf modules outside the stack, the output of the last layer, and the
    logits.
    """
    calls: list[Call] = []
    handles: list[Any] = []
    stack = recording.structure.stacks[-1]

    def record_call(path: str, module: nn.Module, args: tuple[Any, ...], result: Any) -> None:
        if args and isinstance(args[0], Tensor) and isinstance(result, Tensor):
            if args[0].is_floating_point():
                calls.append((path, module, args[0]))

    with hooks_removed(handles):
        for path, module in recording.model.named_modules():
            if not path.startswith(stack.path) and not list(module.children()):
                handles.append(module.register_forward_hook(functools.partial(record_call, path)))
        paths = {layer.path for layer in stack.layers}
        layers, output = layer_calls(recording.model, inputs, paths, None)
    return calls, layers[-1].hidden_out, output.logits


class _ChainSearch:
    """Searches for a chain of modules that computes the logits of the first text from a hidden
    state of this text.
    """

    def __init__(self, calls: list[Call], end: Tensor, place: int) -> None:
        self.calls, self.end, self.place = calls, end, place

    def links(self, state: Row, first: int, depth: int) -> tuple[Link, ...] | None:
        """Return the steps that compute the logits from `state`, or None if there are none.

        Only the module calls from index `first` on are tried.
        """
        closing = self._closing(state)
        if closing is not None or depth > 12:
            return closing
        for number in range(first, len(self.calls)):
            path, module, call_input = self.calls[number]
            module_input = self._row(call_input, state)
            before = None if module_input is None else self._before(state, module_input)
            if module_input is None or before is None:
                continue
            step = _form(module, len(module_input), module_input, call_input.dtype)
            if step is None:
                continue
            further = self.links(step.whole(module_input), number + 1, depth + 1)
            if further is not None:
                return (*before, path, *further)
        return None

    def _closing(self, state: Row) -> tuple[Link, ...] | None:
        """Return the steps that complete the chain, or None if `state` does not lead directly to
        the logits.

        The result is empty if the state already equals the logits. Otherwise it contains one step,
        a constant factor or a soft-cap.
        """
        if state.shape != self.end.shape:
            return None
        end = self.end.to(state)
        if self._same(state, end):
            return ()
        factor = float((state @ end) / (state @ state))
        for link in (
            Activation(functools.partial(_multiply, factor=factor)),
            Activation(functools.partial(_cap_logits, cap=_cap(state, end))),
        ):
            if self._same(link.function(state), end):
                return (link,)
        return None

    def _before(self, state: Row, module_input: Row) -> tuple[Link, ...] | None:
        """Return the steps between a state and the input of a module, or None if they are
        unrelated.

        The result contains an activation, or is empty if the state equals the input.
        """
        if self._same(state, module_input):
            return ()
        for function in _ACTIVATIONS.values():
            if self._same(function(state), module_input):
                return (Activation(function),)
        return None

    def _row(self, tensor: Tensor, like: Row) -> Row | None:
        """Return the first text's vector at the position that the head reads. If the tensor has
        only one vector per text, return this vector.
        """
        if tensor.shape[-1] != len(like) or tensor.dim() not in (2, 3):
            return None
        return (tensor[0] if tensor.dim() == 2 else tensor[0, self.place]).to(like)

    def _same(self, one: Row, other: Row) -> bool:
        """Return whether two vectors agree up to one rounding in the model's own precision.

        This tolerance is needed because some norms always compute in float32.
        """
        bar = max(same_bar(one), ROUNDING[torch.float64], 2 * torch.finfo(self.end.dtype).eps)
        return one.shape == other.shape and difference(one[None], other[None]) <= bar


def _multiply(state: Tensor, *, factor: float) -> Tensor:
    return factor * state


def _cap_logits(state: Tensor, *, cap: float) -> Tensor:
    return cap * torch.tanh(state / cap)


def _cap(state: Row, end: Row) -> float:
    """Solve end = c tanh(state / c) for the soft-cap c, by bisection.

    The equation is solved for the entry with the largest absolute value. Bisection works because
    the right-hand side grows with c.
    """
    largest = int(state.abs().argmax())
    before, after = abs(float(state[largest])), abs(float(end[largest]))
    low, high = max(after, 1e-30), 1e6 * max(before, after, 1e-30)
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if middle * math.tanh(before / middle) < after else (low, middle)
    return math.sqrt(low * high)
