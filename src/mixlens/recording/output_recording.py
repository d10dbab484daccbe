"""The cheapest recording: the output of one native pass and the inputs of the layers.

Gradients and erasures need what enters the layers and what comes out of the model, not the
attention inside. So attention is neither overheard nor taken apart here. Two things are checked:
the layers are called in the order that the probe showed, and each returns finite numbers.

With `graph` the pass is kept for gradients: one forward pass serves the output that is chosen and
its gradient at the input of every layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from mixlens.capture.attention_capture import runnable_experts
from mixlens.capture.layer_calls import Inputs, LayerCall, layer_calls
from mixlens.errors import InvalidInput
from mixlens.recording.deferred_checks import checks_wait
from mixlens.recording.layer import Layer
from mixlens.recording.recording import (
    Recording,
    require_all_called,
    require_as_probed,
    require_finite,
)
from mixlens.recording.upcast import UpcastModules
from mixlens.structure.model_structure import ModelStructure


class OutputLayer(Layer):
    """A layer of which only the input is kept. Its attention is not available: the arguments of
    fast attention (no mask, say) would mean something else to the code that is taken apart.
    """

    def sites(self) -> NoReturn:
        """There are none here."""
        self._refuse()

    def arguments(self, row: int = 0, copies: int = 1) -> NoReturn:
        """They are not kept."""
        self._refuse()

    def seen(self, hook_point: Any) -> NoReturn:
        """Nothing was watched."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise InvalidInput(
            "this recording holds what the model says and nothing of its attention: a measure that"
            " needs attention says reads='attention' in its Spec"
        )


@dataclass(kw_only=True, repr=False)
class OutputRecording(Recording):
    """One forward pass of which the output and what entered the layers is kept."""

    entered: Mapping[tuple[str, int], Tensor]
    """(stack, layer) -> its input as part of the graph; empty if no graph was kept."""


def recorded_output(
    model: nn.Module,
    structure: ModelStructure,
    inputs: Inputs,
    *,
    memory_budget: int,
    graph: bool,
) -> OutputRecording:
    """Runs the model once, as it was loaded."""
    kept = _EnteringStates(model, structure, graph, memory_budget)
    order = structure.calls
    paths = {stack.layers[index].path for stack, index in order}
    with torch.set_grad_enabled(graph), runnable_experts(model), checks_wait():
        calls, output = layer_calls(
            model,
            inputs,
            paths,
            None,
            on_layer=kept.on_layer,
            on_enter=kept.on_enter,
            layouts=structure.layouts,
        )
    require_all_called(order, calls)
    return OutputRecording(
        model=model,
        structure=structure,
        inputs=inputs,
        output=output,
        lengths={},
        tokens={},
        memory_budget=memory_budget,
        stack_layers=kept.stack_layers,
        source_counts={},
        entered=kept.entered,
    )


class _EnteringStates:
    """What enters each layer of one pass, with its place in the graph if one is kept."""

    def __init__(
        self, model: nn.Module, structure: ModelStructure, graph: bool, memory_budget: int
    ) -> None:
        self.model, self.structure, self.graph = model, structure, graph
        self.memory_budget = memory_budget
        self.upcast_modules = UpcastModules()
        self.stack_layers: dict[str, list[Layer]] = {}
        self.entered: dict[tuple[str, int], Tensor] = {}
        self.finished = 0

    def on_enter(self, number: int, call: LayerCall) -> Tensor | None:
        """Keeps the input of a layer; returns the tensor that the layer is to use instead of it."""
        require_as_probed(self.structure.calls, number, call)
        stack, index = self.structure.calls[number]
        hidden = call.hidden_in
        layer = OutputLayer(
            model=self.model,
            backend=self.structure.backend,
            stack=stack,
            index=index,
            call=LayerCall(call.path, call.module, (hidden.detach(),), {}),
            internals=None,
            upcast_modules=self.upcast_modules,
            memory_budget=self.memory_budget,
        )
        self.stack_layers.setdefault(stack.name, []).append(layer)
        if not self.graph:
            return None
        joins = hidden.clone() if hidden.requires_grad else hidden.detach().clone().requires_grad_()
        self.entered[stack.name, index] = joins
        return joins.clone()  # a layer may write into its input, and `joins` must stay what it was

    def on_layer(self, call: LayerCall, seen: object) -> None:
        """Checks what a layer returned, and keeps nothing of the call."""
        require_finite(self.structure.calls, self.finished, call.path, call.hidden_out)
        self.finished += 1
        call.args, call.kwargs, call.output = (), {}, None
