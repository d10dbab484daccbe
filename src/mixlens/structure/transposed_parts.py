"""Handle submodules whose tensors are [tokens, batch, channel] instead of [batch, tokens, channel].

While such a layer runs, two hooks around each of these parts transpose its tensors and transpose
them back, so that all other hooks see the batch first. Other code does not have to handle this
case.

The parts are found once, from a call with different numbers of texts and tokens, because the order
of the axes would be ambiguous otherwise. Some parts transpose their states back internally
(Mask2Former's self-attention).
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
    """Exchange the first two axes of every tensor [first, second, channel] in a value."""
    return changed(value, lambda t: t.transpose(0, 1) if _fits(t, first, second) else t)


@torch.no_grad()
def turned_sides(call: LayerCall) -> frozenset[HookPoint]:
    """Return the parts of a layer whose input ("in") or output ("out") has the tokens first.

    They are found in a call of a layer that has its tokens first. A part may have one side
    transposed and not the other.
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
    """Context in which existing hooks see the batch first at these sides of the parts."""

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
