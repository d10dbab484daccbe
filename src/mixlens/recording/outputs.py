"""What a model says, from one pass of the model as it is: the cheapest recording.

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

from mixlens.errors import InvalidInput
from mixlens.recording.calls import Inputs, LayerCall, layer_calls
from mixlens.recording.capture import runnable_experts
from mixlens.recording.layer import Layer
from mixlens.recording.model_structure import ModelStructure
from mixlens.recording.recording import (
    Recording,
    require_all_called,
    require_as_probed,
    require_finite,
)
from mixlens.recording.wide import WideModules


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

    def seen(self, witness: Any) -> NoReturn:
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
    order = structure.calls
    entered: dict[tuple[str, int], Tensor] = {}
    wide_modules, stack_layers = WideModules(), dict[str, list[Layer]]()
    finished = 0

    def on_enter(number: int, call: LayerCall) -> Tensor | None:
        require_as_probed(order, number, call)
        stack, index = order[number]
        hidden = call.hidden_in
        layer = OutputLayer(
            model=model,
            backend=structure.backend,
            stack=stack,
            index=index,
            call=LayerCall(call.path, call.module, (hidden.detach(),), {}),
            internals=None,
            wide_modules=wide_modules,
        )
        stack_layers.setdefault(stack.name, []).append(layer)
        if not graph:
            return None
        joins = hidden.clone() if hidden.requires_grad else hidden.detach().clone().requires_grad_()
        entered[stack.name, index] = joins
        return joins.clone()  # a layer may write into its input, and `joins` must stay what it was

    def on_layer(call: LayerCall, seen: object) -> None:
        nonlocal finished
        require_finite(order, finished, call)
        finished += 1
        call.args, call.kwargs, call.output = (), {}, None

    paths = {stack.layers[index].path for stack, index in order}
    with torch.set_grad_enabled(graph), runnable_experts(model):
        calls, output = layer_calls(
            model,
            inputs,
            paths,
            None,
            on_layer=on_layer,
            on_enter=on_enter,
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
        stack_layers=stack_layers,
        source_counts={},
        entered=entered,
    )
