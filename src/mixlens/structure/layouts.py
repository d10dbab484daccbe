"""Convert the hidden states of layers with other layouts to [batch, tokens, d_model].

Image towers may use a grid of patches, detectors put the channels first, time series models have
one sequence per variable, and models for images of any size pack the tokens of all images into one
sequence. Such a layer is wrapped: it receives [batch, tokens, d_model], runs unchanged, and its
output is converted back. The wrapper shares the submodules of the layer, so the model's own hooks
and weights are used.

Some submodules have tensors [tokens, batch, channel] instead of [batch, tokens, channel]. While the
layer runs, two hooks on each of them transpose the tensors before all other hooks run, and
transpose them back afterwards, so all other hooks see [batch, tokens, channel]. These submodules
are found once, from a call with different numbers of texts and tokens, because the order of the
axes would be ambiguous otherwise. Some submodules transpose their states back internally
(Mask2Former's self-attention).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Size, Tensor, nn

from mixlens.capture.attention_call import Listener, current_listener, listening
from mixlens.capture.layer_calls import (
    HookPoint,
    LayerCall,
    first_tensor,
    float_tensors,
    hidden_argument,
    hooks_removed,
    map_tensors,
    with_hidden_argument,
)
from mixlens.capture.packed_attention import (
    PackedAttention,
    PairedAttention,
    combine_packed_calls,
    combine_paired_calls,
)
from mixlens.model.module_walk import BareProducts, named_parts

_Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Layout:
    """Converts a layout of hidden states to and from [batch, tokens, d_model]."""

    rows: Callable[[Tensor, int], Tensor]  # from the form, for this batch size
    form: Callable[[Tensor, Size], Tensor]  # back, to a shape like this one
    packed: bool = False  # whether texts follow each other on the token axis

    def call(self, call: LayerCall) -> LayerCall:
        """Convert a layer call to [batch, tokens, d_model]. The result does not include the call's
        output.
        """
        (args, kwargs), shape = self.enter(call.args, call.kwargs)
        return LayerCall(call.path, ArrangedLayer(call.module, self, shape), args, kwargs)

    def enter(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[_Arguments, Any]:
        """Convert the arguments to [batch, tokens, d_model], and also return the original shape of
        the hidden states.
        """
        hidden = hidden_argument(args, kwargs)
        arranged = self.rows(hidden, 1 if self.packed else int(hidden.shape[0]))
        return with_hidden_argument(args, kwargs, arranged), hidden.shape

    def entering(self, args: tuple[Any, ...], kwargs: dict[str, Any], shape: Any) -> _Arguments:
        """Convert arguments from [batch, tokens, d_model] to the layout that the layer expects."""
        hidden = hidden_argument(args, kwargs)
        return with_hidden_argument(args, kwargs, self.form(hidden, shape))

    def leave(self, output: Any, batch: int) -> Tensor:
        """Convert the layer's output to [batch, tokens, d_model] for this batch size."""
        return self.rows(first_tensor(output), batch)

    def attention(self, call: LayerCall) -> None:
        """Combine the attention calls of a layer that processed its sequence in pieces into one
        call.
        """
        if self.packed:
            call.attention = combine_packed_calls(call.attention, *call.hidden_in.shape[:2])

    def whole(self, module: nn.Module) -> nn.Module:
        """Return the complete layer, given the module at the layer's path."""
        return module

    def last(self, module: nn.Module) -> nn.Module:
        """Return the module whose output is the layer's output."""
        return module

    def inside(self, tensor: Tensor, hook_point: HookPoint, batch: int, tokens: int) -> Tensor:
        """Convert a tensor of a submodule so that the batch comes first."""
        return tensor

    def running(
        self, layer: nn.Module, batch: int, tokens: int, shape: Any
    ) -> contextlib.AbstractContextManager[None]:
        """Return a context in which the layer can run on [batch, tokens, d_model]."""
        if not self.packed:
            return contextlib.nullcontext()
        return _combine_calls(lambda outer: PackedAttention(outer, batch, tokens))


@dataclass(frozen=True)
class TwoStreams(Layout):
    """Describes the layout of a layer with two tensors of tokens, which are concatenated: the words
    and entities of LUKE, or the words and boxes of LXMERT.
    """

    second: int = 1  # index among the arguments

    @classmethod
    def of(cls, call: LayerCall) -> TwoStreams | None:
        """Return this layout if the layer receives and returns two tensors of tokens, or None
        otherwise.
        """
        first, returned = call.hidden_in, call.output
        if not call.args or call.args[0] is not first or not isinstance(returned, tuple):
            return None
        for place, value in enumerate(call.args[1:], 1):
            if isinstance(value, Tensor) and value.is_floating_point() and value.dim() == 3:
                shapes = [getattr(part, "shape", None) for part in returned[:2]]
                both = shapes == [first.shape, value.shape]
                return cls(same, same, second=place) if both else None
        return None

    def enter(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[_Arguments, Any]:
        """Replace the first stream by the concatenation of both. Also return the length of each
        stream.
        """
        first, second = args[0], args[self.second]
        both = torch.cat([first, second], 1)
        new_args = (both, *args[1 : self.second], None, *args[self.second + 1 :])
        return (new_args, kwargs), (first.shape[1], second.shape[1])

    def entering(self, args: tuple[Any, ...], kwargs: dict[str, Any], shape: Any) -> _Arguments:
        """Split the concatenated streams, and pass each stream as a separate argument."""
        first, second = torch.split(args[0], shape, 1)
        return (first, *args[1 : self.second], second, *args[self.second + 1 :]), kwargs

    def leave(self, output: Any, batch: int) -> Tensor:
        """Concatenate the outputs of both streams."""
        return torch.cat(output[:2], 1)

    def attention(self, call: LayerCall) -> None:
        """Combine the attention calls of the two streams, if each stream has a separate call."""
        assert isinstance(call.module, ArrangedLayer)
        call.attention = combine_paired_calls(call.attention, call.module.shape)

    def running(
        self, layer: nn.Module, batch: int, tokens: int, shape: Any
    ) -> contextlib.AbstractContextManager[None]:
        """Return a context that combines the attention calls of the two streams while the layer
        runs.
        """
        return _combine_calls(lambda outer: PairedAttention(outer, shape))


@dataclass(frozen=True)
class TokensFirst(Layout):
    """Describes the layout of a layer in which some submodules use [tokens, batch, channel]."""

    sides: frozenset[HookPoint] = frozenset()

    def inside(self, tensor: Tensor, hook_point: HookPoint, batch: int, tokens: int) -> Tensor:
        """Move the batch axis to the front if the tensor at this hook point is transposed."""
        is_turned = hook_point._replace(position=0) in self.sides
        return swap_axes(tensor, tokens, batch) if is_turned else tensor

    def running(
        self, layer: nn.Module, batch: int, tokens: int, shape: Any
    ) -> contextlib.AbstractContextManager[None]:
        """Return a context that transposes the tensors of these submodules while the layer runs."""
        return swap_parts(layer, batch, tokens, self.sides)


def same(states: Tensor, _: Any) -> Tensor:
    """Return the states unchanged, because they are already [batch, tokens, d_model]."""
    return states


def swap_part(path: str) -> TokensFirst:
    """Return the layout of a layer in which a submodule uses [tokens, batch, channel], such as
    MLCD's output projection.
    """
    return TokensFirst(same, same, sides=frozenset({HookPoint(path, "in"), HookPoint(path, "out")}))


_GRID = Layout(
    # [batch, height, width, d_model]
    lambda states, batch: states.flatten(1, 2),
    lambda rows, shape: rows.reshape(len(rows), *shape[1:]),
)
_CHANNELS_FIRST = Layout(
    # [batch, d_model, height, width]
    lambda states, batch: states.flatten(2).transpose(1, 2),
    lambda rows, shape: rows.transpose(1, 2).reshape(len(rows), *shape[1:]),
)
_SERIES = Layout(
    # [batch, variable, tokens, d_model]
    lambda states, batch: states.flatten(0, 1),
    lambda rows, shape: rows[:, None],
)
_PACKED = Layout(
    # [tokens, d_model]
    lambda states, batch: states.reshape(batch, -1, states.shape[-1]),
    lambda rows, shape: rows.reshape(*shape[:-2], -1, shape[-1]),
    packed=True,
)


_STREAMS_FIRST = Layout(
    # [streams, batch, tokens, channel]: all streams of a token form its state
    lambda states, batch: states.permute(1, 2, 0, 3).flatten(2),
    lambda rows, shape: rows.reshape(*rows.shape[:2], shape[0], -1).permute(2, 0, 1, 3),
)
_STREAMS_LAST = Layout(
    # [batch, tokens, streams, channel]
    lambda states, batch: states.flatten(2),
    lambda rows, shape: rows.reshape(*rows.shape[:2], *shape[2:]),
)
_TOKENS_FIRST = TokensFirst(
    lambda states, batch: states.transpose(0, 1),
    lambda rows, shape: rows.transpose(0, 1),
)


def possible_layouts(call: LayerCall, resized: LayerCall, sizes: tuple[int, int]) -> list[Any]:
    """Return the layouts that the hidden states of a layer may have, given two calls with different
    batch sizes.

    `sizes` contains the two batch sizes. In the result, None stands for [batch, tokens, d_model].
    """
    shape, other = call.hidden_in.shape, resized.hidden_in.shape
    in_step = int(shape[0]) * sizes[1] == int(other[0]) * sizes[0]
    if len(shape) == 3 and in_step:
        two_streams = TwoStreams.of(call)
        return [None] if two_streams is None else [None, two_streams]
    if len(shape) == 4 and in_step:
        return [_GRID, _CHANNELS_FIRST, _SERIES, _STREAMS_LAST]
    if len(shape) == 4 and _is_second(shape, other, sizes):
        return [_STREAMS_FIRST]
    if len(shape) == 3 and _is_second(shape, other, sizes):
        telling = call if shape[0] != shape[1] else resized
        return [replace(_TOKENS_FIRST, sides=find_swapped_sides(telling))]
    tokens, other_tokens = shape[:-1].numel(), other[:-1].numel()
    doubled = other_tokens == 2 * tokens and sizes[1] == 2 * sizes[0]
    return [_PACKED] if len(shape) in (2, 3) and shape[:-2].numel() == 1 and doubled else []


def _is_second(shape: Size, other: Size, sizes: tuple[int, int]) -> bool:
    """Return whether the size of the second axis is proportional to the batch size."""
    return shape[1] != other[1] and shape[1] * sizes[1] == other[1] * sizes[0]


def why_unknown(call: LayerCall, resized: LayerCall, sizes: tuple[int, int]) -> str:
    """Return an explanation of why the hidden states match none of the layouts."""
    shape, other = tuple(call.hidden_in.shape), tuple(resized.hidden_in.shape)
    shapes = f"{shape} for {sizes[0]} rows, {other} for {sizes[1]}"
    return (
        f"the form of its hidden states is unknown ({shapes}): neither [batch, tokens, "
        "channels], nor grids of patches, nor packed sequences"
    )


class ArrangedLayer(nn.Module):
    """Wraps a layer so that it receives and returns [batch, tokens, d_model]."""

    layer: nn.Module
    layout: Layout
    shape: Any

    def __init__(self, layer: nn.Module, layout: Layout, shape: Any) -> None:
        super().__init__()
        self._modules, self._parameters = layer._modules, layer._parameters
        self._buffers = layer._buffers
        self.training = layer.training
        # not a submodule, so that its parts keep their paths in the layer
        vars(self).update(layer=layer, layout=layout, shape=shape)
        if hasattr(layer, "config"):
            self.config = layer.config

    def forward(self, *args: Any, **kwargs: Any) -> Float[Tensor, "batch target d_model"]:
        """Return the layer's output as [batch, tokens, d_model]."""
        hidden, layer, layout = hidden_argument(args, kwargs), self.layer, self.layout
        args, kwargs = layout.entering(args, kwargs, self.shape)
        batch, tokens = hidden.shape[:2]
        with layout.running(layer, batch, tokens, self.shape):
            output = layer(*args, **kwargs)
        states: Tensor = layout.leave(output, len(hidden))
        return states


def _combine_calls(
    joining: Callable[[Listener], Listener],
) -> contextlib.AbstractContextManager[None]:
    """Return a context in which attention calls are combined before the current listener receives
    them. `joining` wraps this listener in a new one that combines the calls.
    """
    outer = current_listener()
    return contextlib.nullcontext() if outer is None else listening(joining(outer))


def _fits(tensor: Tensor, first: int, second: int) -> bool:
    return tensor.dim() == 3 and tuple(tensor.shape[:2]) == (first, second)


def swap_axes(value: Any, first: int, second: int) -> Any:
    """Swap the first two axes of every tensor [first, second, channel] in a value."""
    return map_tensors(value, lambda t: t.transpose(0, 1) if _fits(t, first, second) else t)


@torch.no_grad()
def find_swapped_sides(call: LayerCall) -> frozenset[HookPoint]:
    """Return the inputs ("in") and outputs ("out") of submodules that have the tokens first.

    `call` is a call of a layer whose hidden states have the tokens first. A submodule may have only
    its input or only its output transposed.
    """
    tokens, batch = call.hidden_in.shape[:2]
    assert tokens != batch  # otherwise shapes are ambiguous
    sides: set[HookPoint] = set()

    def look(path: str, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        for side, values in (("in", (*args, *kwargs.values())), ("out", (output,))):
            if any(_fits(tensor, int(tokens), int(batch)) for tensor in float_tensors(values)):
                sides.add(HookPoint(path, side))

    handles: list[Any] = []
    with hooks_removed(handles), BareProducts(call.module):
        for path, part in named_parts(call.module):
            if path:
                hook = functools.partial(look, path)
                handles.append(part.register_forward_hook(hook, with_kwargs=True))
        call.module(*call.args, **call.kwargs)
    return frozenset(sides)


@contextlib.contextmanager
def swap_parts(
    layer: nn.Module, batch: int, tokens: int, sides: frozenset[HookPoint]
) -> Iterator[None]:
    """Context in which existing hooks see the batch axis first at these inputs and outputs."""

    def rows_first(module: nn.Module, args: Any, kwargs: Any) -> Any:
        return swap_axes(args, tokens, batch), swap_axes(kwargs, tokens, batch)

    def as_it_was(module: nn.Module, args: Any, kwargs: Any) -> Any:
        return swap_axes(args, batch, tokens), swap_axes(kwargs, batch, tokens)

    def output_rows_first(module: nn.Module, args: Any, output: Any) -> Any:
        return swap_axes(output, tokens, batch)

    def output_as_it_was(module: nn.Module, args: Any, output: Any) -> Any:
        return swap_axes(output, batch, tokens)

    handles: list[Any] = []
    with hooks_removed(handles):
        for path, part in named_parts(layer):
            before, after = part.register_forward_pre_hook, part.register_forward_hook
            if HookPoint(path, "in") in sides:
                handles.append(before(rows_first, with_kwargs=True, prepend=True))
                handles.append(before(as_it_was, with_kwargs=True))
            if HookPoint(path, "out") in sides:
                handles.append(after(output_rows_first, prepend=True))
                handles.append(after(output_as_it_was))
        yield
