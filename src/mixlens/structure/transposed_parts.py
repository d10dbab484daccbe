"""Handle submodules that put tokens before the batch: [tokens, batch, channel].

While such a layer runs, each of these parts is transposed for all other hooks: two hooks around
them pass the batch first and transpose the output back. No other code has to handle it.

These parts are found once, from a call whose shapes are unambiguous. With as many texts as tokens
they are not, and some parts transpose their states back inside (Mask2Former's self-attention).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from mixlens.capture.layer_calls import HookPoint, LayerCall, changed, float_tensors, hooks_removed
from mixlens.model.module_walk import BareProducts, named_parts


def _fits(tensor: Tensor, first: int, second: int) -> bool:
    return tensor.dim() == 3 and tuple(tensor.shape[:2]) == (first, second)


def turned(value: Any, first: int, second: int) -> Any:
    """Return a value with the first two axes of every tensor [first, second, channel] exchanged."""
    return changed(value, lambda t: t.transpose(0, 1) if _fits(t, first, second) else t)


@torch.no_grad()
def turned_sides(call: LayerCall) -> frozenset[HookPoint]:
    """Return where parts of a layer take ("in") or return ("out") the tokens first, from a call
    that does. A part may do one and not the other.
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
def turned_parts(
    layer: nn.Module, batch: int, tokens: int, sides: frozenset[HookPoint]
) -> Iterator[None]:
    """Show these sides of parts with the batch first to existing hooks, while the context is
    open.
    """

    def rows_first(module: nn.Module, args: Any, kwargs: Any) -> Any:
        return turned(args, tokens, batch), turned(kwargs, tokens, batch)

    def as_it_was(module: nn.Module, args: Any, kwargs: Any) -> Any:
        return turned(args, batch, tokens), turned(kwargs, batch, tokens)

    def output_rows_first(module: nn.Module, args: Any, output: Any) -> Any:
        return turned(output, tokens, batch)

    def output_as_it_was(module: nn.Module, args: Any, output: Any) -> Any:
        return turned(output, batch, tokens)

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
