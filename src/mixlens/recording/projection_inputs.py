"""The inputs of the output projections of one forward pass, as tensors of its autograd graph.

The gradient of an output with respect to attention weights is computed from the gradients at these
inputs. Only these tensors need a gradient, so the parameters of the model are frozen. The graph
then does not keep the inputs of linear modules, which only the gradients of weights need.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from mixlens.capture.layer_calls import hooks_removed
from mixlens.errors import UnsupportedModel
from mixlens.kernels.rescale import constants
from mixlens.model.linearity import require_gradients
from mixlens.model.module_walk import BareProducts


class ProjectionInputs:
    """Collects the inputs of some modules, one call for each entry of `modules`.

    A module that several layers share occurs several times, in call order.
    """

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self._modules = modules
        self._inputs: dict[nn.Module, list[Tensor]] = defaultdict(list)

    @contextlib.contextmanager
    def collect(self, model: nn.Module) -> Iterator[None]:
        """Collect the inputs, and keep an autograd graph, while the model runs in this context."""
        require_gradients(model)
        handles: list[Any] = []
        with torch.enable_grad(), hooks_removed(handles), BareProducts(model), constants(model):
            for module in dict.fromkeys(self._modules):
                handles.append(module.register_forward_pre_hook(self._enter))
            yield

    def _enter(self, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        first = args[0]
        # a tensor of its own, because the module may not be the only one that reads `first`
        leaf = first.view_as(first) if first.requires_grad else first.detach().requires_grad_()
        self._inputs[module].append(leaf)
        return (leaf, *args[1:])

    def gradients(self, number: Tensor, site: str) -> list[Tensor]:
        """Return the gradient of `number` with respect to each input. This frees the graph."""
        counts = {module: len(inputs) for module, inputs in self._inputs.items()}
        if any(counts.get(module) != self._modules.count(module) for module in set(self._modules)):
            raise UnsupportedModel(
                f"the output projections of {site} are not called once per layer, so their "
                "gradients cannot be assigned to layers"
            )
        calls = {module: iter(inputs) for module, inputs in self._inputs.items()}
        inputs = [next(calls[module]) for module in self._modules]
        self._inputs.clear()
        if not number.requires_grad:
            return [torch.zeros_like(each) for each in inputs]
        return list(torch.autograd.grad(number, inputs, allow_unused=True, materialize_grads=True))
