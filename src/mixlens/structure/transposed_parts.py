"""Handle submodules whose tensors are [tokens, batch, channel] instead of [batch, tokens, channel].

While the layer runs, two hooks on each of these submodules transpose the tensors before all other
hooks run, and transpose them back afterwards. All other hooks therefore see [batch, tokens,
channel], and other code does not have to handle this case.

The submodules are found once, from a call with different numbers of texts and tokens, because the
order of the axes would be ambiguous otherwise. Some submodules transpose their states back
internally (Mask2Former's self-attention).
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
    """Swap the first two axes of every tensor [first, second, channel] in a value."""
    return changed(value, lambda t: t.transpose(0, 1) if _fits(t, first, second) else t)


@torch.no_grad()
def turned_sides(call: LayerCall) -> frozenset[HookPoint]:
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
def turned_parts(
    layer: nn.Module, batch: int, tokens: int, sides: frozenset[HookPoint]
) -> Iterator[None]:
    """Context in which existing hooks see the batch axis first at these inputs and outputs."""

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
