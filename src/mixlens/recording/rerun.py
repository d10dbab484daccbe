"""Runs one recorded layer again: on copies of one row of the batch, with edited values, attention
output or hidden states.

Which axis of each recorded argument carries the batch cannot be guessed from shapes (ALiBi biases
come as [batch * head, 1, n], cosines as [1, n, d]); it is found by running the model on two
numbers of rows and comparing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mixlens.errors import InvalidInput
from mixlens.recording.calls import (
    LayerCall,
    first_tensor,
    hidden_argument,
    hooks_removed,
    with_hidden_argument,
)
from mixlens.recording.capture import overheard
from mixlens.recording.casts import idle_casts_skipped
from mixlens.recording.listener import AttentionCall, Listener, ValueEdit, listening


@dataclass(frozen=True)
class BatchAxis:
    """The axis of a tensor that carries the batch, and how many entries belong to each row."""

    axis: int
    per_row: int


def batch_axes(one: Any, other: Any, rows: int, other_rows: int) -> Any:
    """The batch axis of every tensor in a nested argument, from calls with `rows` and `other_rows`
    rows; None if it has none.
    """
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        if one.dim() != other.dim():
            return None
        for axis, (a, b) in enumerate(zip(one.shape, other.shape, strict=True)):
            if a != b and a % rows == 0 and b == a // rows * other_rows:
                return BatchAxis(axis, a // rows)
        return None
    if isinstance(one, (tuple, list)) and isinstance(other, (tuple, list)):
        return tuple(batch_axes(a, b, rows, other_rows) for a, b in zip(one, other, strict=False))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return {name: batch_axes(one[name], other.get(name), rows, other_rows) for name in one}
    return None


def _rows_of(argument: Any, axes: Any, row: int, copies: int, rows: int) -> Any:
    """One row of every tensor that carries the batch, repeated."""
    if isinstance(argument, Tensor):
        if not isinstance(
            axes, BatchAxis
        ):  # a mask that the probe did not have: broadcast, or batch first
            axes = (
                BatchAxis(0, 1)
                if argument.dim() > 2 and rows > 1 and argument.shape[0] == rows
                else None
            )
        if (
            axes is None or argument.shape[axes.axis] == 1 < rows
        ):  # the probe has a padded row; without one, masks are broadcast
            return argument
        taken = argument.narrow(axes.axis, row * axes.per_row, axes.per_row)
        repeats = [1] * argument.dim()
        repeats[axes.axis] = copies
        return taken.repeat(repeats)
    if isinstance(argument, (tuple, list)):
        inner = (
            axes
            if isinstance(axes, tuple) and len(axes) == len(argument)
            else (None,) * len(argument)
        )
        made = [
            _rows_of(value, axis, row, copies, rows)
            for value, axis in zip(argument, inner, strict=True)
        ]
        return type(argument)(made) if type(argument) in (tuple, list) else tuple(made)
    if isinstance(argument, Mapping):
        inner_axes = axes if isinstance(axes, Mapping) else {}
        return {
            name: _rows_of(value, inner_axes.get(name), row, copies, rows)
            for name, value in argument.items()
        }
    return argument


def expanded(
    call: LayerCall, axes: Any, row: int, copies: int
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a recorded call for `copies` copies of one row of its batch."""
    rows = int(call.hidden_in.shape[0])
    arg_axes, kwarg_axes = axes
    args = _rows_of(call.args, arg_axes, row, copies, rows)
    kwargs = dict(_rows_of(call.kwargs, kwarg_axes, row, copies, rows))
    return _hidden_states_as_one(call, args, kwargs)


def cast_call(
    call: LayerCall, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: torch.dtype
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments made of a recorded call, in a different precision."""
    return _hidden_states_as_one(call, _cast(args, dtype), _cast(kwargs, dtype))


def _hidden_states_as_one(
    call: LayerCall, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What was one tensor stays one: a layer may be given its hidden states as queries, keys and
    values (Funnel).
    """
    old, new = call.hidden_in, hidden_argument(args, kwargs)
    named = {name: new if call.kwargs[name] is old else value for name, value in kwargs.items()}
    pairs = zip(call.args, args, strict=True)
    return tuple(new if given is old else value for given, value in pairs), named


def _cast(argument: Any, dtype: torch.dtype) -> Any:
    """Floating-point tensors of a nested argument in a different precision."""
    if isinstance(argument, Tensor):
        return argument.to(dtype) if argument.is_floating_point() else argument
    if isinstance(argument, (tuple, list)):
        made = [_cast(value, dtype) for value in argument]
        return type(argument)(made) if type(argument) in (tuple, list) else tuple(made)
    if isinstance(argument, Mapping):
        return {name: _cast(value, dtype) for name, value in argument.items()}
    return argument


def run_layer(
    module: nn.Module,
    backend: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    batch: int,
    hidden: Tensor | None = None,
    edit_values: ValueEdit | None = None,
    replace_output: Mapping[str, Tensor] | None = None,
    on_call: Callable[[AttentionCall], None] | None = None,
    grad: bool = False,
) -> Tensor:
    """The layer's hidden states.

    `replace_output` puts tensors in place of what named submodules return.
    """
    if hidden is not None:
        args, kwargs = with_hidden_argument(args, kwargs, hidden)
    handles: list[Any] = []

    def returning(tensor: Tensor) -> Callable[..., Tensor]:
        return lambda submodule, inputs, output: tensor.reshape(output.shape)

    with hooks_removed(handles), contextlib.ExitStack() as stack:
        for path, tensor in (replace_output or {}).items():
            handles.append(module.get_submodule(path).register_forward_hook(returning(tensor)))
        listener = Listener(on_call=on_call, edit_values=edit_values, batch=batch)
        stack.enter_context(listening(listener))
        stack.enter_context(overheard(module, backend))
        stack.enter_context(idle_casts_skipped(module))
        stack.enter_context(torch.set_grad_enabled(grad))
        return first_tensor(module(*args, **kwargs))


def values_for_heads(
    values: Float[Tensor, "copies some_heads source d_head"], heads: int
) -> Float[Tensor, "copies heads source d_head"]:
    """Values for as many heads as one attention call takes: code that repeats grouped values may do
    so in some calls and not in others.
    """
    given = int(values.shape[1])
    if given == heads:
        return values
    if max(given, heads) % min(given, heads):
        raise InvalidInput(
            f"this attention has {heads} value heads, and values are given for {given}"
        )
    if given < heads:
        return values.repeat_interleave(heads // given, 1)
    groups = values.reshape(len(values), heads, -1, *values.shape[2:])
    if not torch.equal(groups, groups[:, :, :1].expand_as(groups)):
        raise InvalidInput(
            f"this attention has {heads} value heads; values of query heads that share one of them"
            " must be the same"
        )
    return groups[:, :, 0]
