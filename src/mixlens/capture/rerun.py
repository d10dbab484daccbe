"""Re-run one recorded layer on copies of a text, with edited values, attention or hidden states.

Some modules cast themselves while they run (the routers of Switch and NLLB-MoE). Casting a module
writes to its parameters even if they already have the right dtype. Inside a torch.func transform,
this would store the wrapper tensors of the transform in the module. The wrappers would outlive the
transform, and the next run of the model would crash the process. `idle_casts_skipped` prevents
this.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mixlens.capture.attention_call import AttentionCall, Listener, ValueEdit, listening
from mixlens.capture.attention_capture import attention_captured
from mixlens.capture.batch_axes import copy_text
from mixlens.capture.layer_calls import (
    LayerCall,
    first_tensor,
    hidden_argument,
    hooks_removed,
    map_tensors,
    with_hidden_argument,
)
from mixlens.errors import InvalidInput
from mixlens.kernels.chunks import computing_dtype
from mixlens.model.module_walk import copy_module, part_at


def repeat_arguments(
    call: LayerCall, axes: Any, text: int, copies: int
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a recorded call, for `copies` copies of one text of the batch."""
    hidden, (arg_axes, kwarg_axes) = call.hidden_in, axes
    texts = int(hidden.shape[0])
    args = copy_text(call.args, arg_axes, text, copies, texts)
    kwargs = dict(copy_text(call.kwargs, kwarg_axes, text, copies, texts))
    states = hidden[text : text + 1].repeat(copies, *[1] * (hidden.dim() - 1))
    return _with_hidden_states(call, args, kwargs, states)


def cast_call(
    call: LayerCall, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: torch.dtype
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a recorded call, cast to another dtype."""
    args, kwargs = _cast(args, dtype), _cast(kwargs, dtype)
    return _with_hidden_states(call, args, kwargs, hidden_argument(args, kwargs))


def _with_hidden_states(
    call: LayerCall, args: tuple[Any, ...], kwargs: dict[str, Any], new: Tensor
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Replace the hidden states in all arguments that contained them in the recorded call.

    Arguments that were the same tensor stay the same tensor: Funnel passes its hidden states as
    queries, keys and values.
    """
    old = call.hidden_in
    new_kwargs = {
        name: new if call.kwargs[name] is old else value for name, value in kwargs.items()
    }
    pairs = zip(call.args, args, strict=True)
    return tuple(new if value_before is old else value for value_before, value in pairs), new_kwargs


def _cast(argument: Any, dtype: torch.dtype) -> Any:
    """Cast all floating-point tensors of a nested argument to another dtype."""
    return map_tensors(argument, lambda t: t.to(dtype) if t.is_floating_point() else t)


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
    """Run the layer and return its hidden states. `replace_output` replaces the outputs of named
    submodules.
    """
    if hidden is not None:
        args, kwargs = with_hidden_argument(args, kwargs, hidden)
    handles: list[Any] = []

    def returning(tensor: Tensor) -> Callable[..., Tensor]:
        return lambda submodule, inputs, output: tensor.reshape(output.shape)

    with hooks_removed(handles), contextlib.ExitStack() as stack:
        for path, tensor in (replace_output or {}).items():
            handles.append(part_at(module, path).register_forward_hook(returning(tensor)))
        listener = Listener(on_call=on_call, edit_values=edit_values, batch=batch)
        stack.enter_context(listening(listener))
        stack.enter_context(attention_captured(module, backend))
        stack.enter_context(idle_casts_skipped(module))
        stack.enter_context(torch.set_grad_enabled(grad))
        return first_tensor(module(*args, **kwargs))


def replacing_values(
    values: Float[Tensor, "copies kv_head source d_head"],
    position: int,
    columns: Callable[[int], slice],
) -> ValueEdit:
    """Return an edit that replaces the values of one attention call of the layer.

    `position` is the number of the call in the layer. `columns` returns the slice of sources to
    replace, given the number of sources.
    """

    def edited(number: int, original: Tensor) -> Tensor:
        if number != position:
            return original
        new = original.clone()
        new_values = _values_for_heads(values.to(original.dtype), int(original.shape[1]))
        new[:, :, columns(int(original.shape[2]))] = new_values
        return new

    return edited


def _values_for_heads(
    values: Float[Tensor, "copies some_heads source d_head"], heads: int
) -> Float[Tensor, "copies heads source d_head"]:
    """Return values with the number of heads that an attention call expects.

    Some models repeat grouped values in some of their calls only.
    """
    value_heads = int(values.shape[1])
    if value_heads == heads:
        return values
    if max(value_heads, heads) % min(value_heads, heads):
        raise InvalidInput(
            f"Values have {value_heads} heads, but this attention has {heads} value heads. Pass "
            f"values for {heads}."
        )
    if value_heads < heads:
        return values.repeat_interleave(heads // value_heads, 1)
    groups = values.reshape(len(values), heads, -1, *values.shape[2:])
    if not torch.equal(groups, groups[:, :, :1].expand_as(groups)):
        raise InvalidInput(
            f"Query heads that share one of the {heads} value heads have different values. "
            "Pass equal values for them."
        )
    return groups[:, :, 0]


@contextlib.contextmanager
def idle_casts_skipped(module: nn.Module) -> Iterator[None]:
    """While the context is open, skip `part.to(dtype)` if the part already has that dtype."""
    parts = [part for part in module.modules() if "to" not in vars(part)]
    try:
        for part in parts:
            vars(part)["to"] = _to(part)
        yield
    finally:
        for part in parts:
            vars(part).pop("to", None)


def _to(part: nn.Module) -> Callable[..., nn.Module]:
    def to(*args: Any, **options: Any) -> nn.Module:
        is_only_dtype = len(args) == 1 and isinstance(args[0], torch.dtype) and not options
        if is_only_dtype and all(parameter.dtype == args[0] for parameter in part.parameters()):
            return part
        return type(part).to(part, *args, **options)

    return to


UpcastModule = tuple[LayerCall, nn.Module]


def upcast_module(call: LayerCall, last: list[UpcastModule]) -> nn.Module:
    """Return the layer of a call in float32 or float64.

    A half-precision layer is copied. `last` caches the latest copy.
    """
    if call.hidden_in.dtype == computing_dtype(call.hidden_in.dtype):
        return call.readable
    if not last or last[0][0] is not call:
        last[:] = [(call, _wide_copy(call.readable))]
    return last[0][1]


def _wide_copy(module: nn.Module) -> nn.Module:
    """Return a copy of a module in float32.

    `Module.float` cannot be used, because it writes to the parameters, which torch.func transforms
    do not allow.
    """
    wide: dict[int, Any] = {
        id(parameter): nn.Parameter(parameter.detach().float(), parameter.requires_grad)
        for parameter in module.parameters()
        if parameter.is_floating_point()
    }
    wide |= {id(part): part.float() for part in module.buffers() if part.is_floating_point()}
    return copy_module(module, wide)
