"""Treat each layer that is spread over several module lists (XLM, Flaubert) as a single module.

XLM has a list of attention modules, two lists of norms and one list of MLPs, and the model's
forward method adds up their outputs. mixlens finds these sums in a single pass: the input of each
list item is the sum of earlier tensors. A layer that is assembled from these items is equivalent to
the code in the model, and is analysed and verified like any other layer.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from mixlens.capture.layer_calls import LayerCall, first_tensor, hidden_argument
from mixlens.kernels.differences import difference, same_bar
from mixlens.structure.layouts import Layout, same


@dataclass(frozen=True)
class SpreadStep:
    """Describes a module of a spread layer by its path and the indices of the tensors that add up
    to its input.

    Index 0 is the layer's input, index 1 the output of the layer's first module, and so on.
    """

    name: str
    module: nn.Module
    summands: tuple[int, ...]


@dataclass(frozen=True)
class Spread(Layout):
    """Describes the layout of a layer that begins with the module at its path and continues with
    items of other module lists.
    """

    name: str = ""
    steps: tuple[SpreadStep, ...] = ()

    @classmethod
    def of(cls, items: Sequence[LayerCall], following: LayerCall | None) -> Spread | None:
        """Return the layout if the items form one layer, or None.

        The inputs of the later items must be sums of earlier tensors, one of these sums must
        include the layer's input, and the last item's output must enter the next layer of the first
        list.
        """
        first, *later = items
        known: list[Tensor] = [first.hidden_in, first.hidden_out]
        steps: list[SpreadStep] = []
        for call in later:
            summands = _summands(call.hidden_in, known)
            if summands is None:
                break
            steps.append(SpreadStep(_name(call), call.module, summands))
            known.append(call.hidden_out)
        names = [_name(first), *(step.name for step in steps)]
        if not any(step.summands == (0, 1) for step in steps) or len(set(names)) < len(names):
            return None
        if following is not None and _list_of(following) == _list_of(first):
            if _summands(following.hidden_in, known[-1:]) is None:
                return None
        return cls(same, same, name=names[0], steps=tuple(steps))

    def call(self, call: LayerCall) -> LayerCall:
        """Convert a call of the first item to a call of the whole layer."""
        return LayerCall(call.path, self.whole(call.module), call.args, call.kwargs)

    def whole(self, module: nn.Module) -> SpreadLayer:
        """Return a module that runs all items of the layer."""
        return SpreadLayer(self.name, module, self.steps)

    def last(self, module: nn.Module) -> nn.Module:
        """Return the last item of the layer."""
        return self.steps[-1].module

    def left(self, output: Any, batch: int) -> Tensor:
        """Return a copy of the last item's output, because XLM sets padding to zero in place."""
        return first_tensor(output).clone()


def _list_of(call: LayerCall) -> str:
    return call.path.rpartition(".")[0]


def _name(call: LayerCall) -> str:
    return _list_of(call).rpartition(".")[2]


def _summands(given: Tensor, known: Sequence[Tensor]) -> tuple[int, ...] | None:
    """Return the indices of the known tensors (one or two) whose sum is `given`, or None."""
    numbers = [i for i, tensor in enumerate(known) if tensor.device == given.device]
    for chosen in (*((i,) for i in numbers), *itertools.combinations(numbers, 2)):
        if difference(_total([known[i] for i in chosen]), given) <= same_bar(given):
            return chosen
    return None


def _total(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


class SpreadLayer(nn.Module):
    """Runs the items of several module lists, one after the other."""

    def __init__(self, name: str, first: nn.Module, steps: Sequence[SpreadStep]) -> None:
        super().__init__()
        self.names = (name, *(step.name for step in steps))
        self.summands = tuple(step.summands for step in steps)
        for own, module in zip(self.names, (first, *(s.module for s in steps)), strict=True):
            self.add_module(own, module)
        self.training = first.training

    def forward(self, *args: Any, **kwargs: Any) -> Float[Tensor, "batch target d_model"]:
        """Return the output of the last item."""
        first, *later = (self.get_submodule(name) for name in self.names)
        known = [hidden_argument(args, kwargs), first_tensor(first(*args, **kwargs))]
        for module, summands in zip(later, self.summands, strict=True):
            known.append(module(_total([known[i] for i in summands])))
        return known[-1]
