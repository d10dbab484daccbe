"""Run the model once, and keep its layers or their inputs.

`capture_layers` captures attention, so that each layer can be rebuilt. It keeps the input and
output of every layer, which take layers x batch x n x d_model numbers. Attention weights, values
and the tensors for the checks are kept too, as long as they fit into `memory_budget` bytes. Layers
whose tensors do not fit are recomputed on demand, one at a time. In addition to the model's own
forward pass, the peak memory is therefore as follows:

    layer inputs and outputs + memory_budget + the internals of one layer (about batch x heads x n^2
    + 8 x batch x n x d_model numbers)

This sum does not grow with layers x n^2.

`capture_inputs` runs the model with its own attention and keeps the inputs of the layers, which is
enough for gradient and erasure measures. It checks that the layers are called in the same order as
in the probe (the run from which the structure was inferred), and that each layer returns finite
numbers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from mixlens.capture.layer_calls import HookPoint, Inputs, Keep, LayerCall, layer_calls, watch
from mixlens.capture.rerun import UpcastModule
from mixlens.contracts import AttentionKind
from mixlens.errors import NonFiniteActivations, UnsupportedModel
from mixlens.kernels.rescale import constants
from mixlens.model.linearity import require_gradients
from mixlens.model.module_walk import part_at, parts_of
from mixlens.model.placement import is_moved
from mixlens.recording.deferred_checks import checks_wait, not_finite, require_small, waiting_for
from mixlens.recording.layer import Layer
from mixlens.recording.rebuilding import Internals
from mixlens.structure.model_structure import ModelStructure, StackStructure
from mixlens.structure.user_hooks import hooks_inside


class StructureDiffers(UnsupportedModel):
    """Raised if the model has a different structure for this input than for the probe."""


@dataclass
class CapturedPass:
    """The output of a forward pass, and the layers kept from it."""

    output: Any
    stack_layers: Mapping[str, Sequence[Layer]]  # stack name -> its layers
    # Tokens that a stack's attention reads.
    source_counts: Mapping[tuple[str, AttentionKind], int] = field(default_factory=dict)
    # (stack, layer) -> its input as part of the graph, if a graph was kept.
    entering_states: Mapping[tuple[str, int], Tensor] = field(default_factory=dict)


def capture_layers(
    model: nn.Module,
    structure: ModelStructure,
    inputs: Inputs,
    *,
    memory_budget: int,
    output: bool = True,
    blocks_only: bool = False,
    logits_at: Int[Tensor, " position"] | None = None,
) -> CapturedPass:
    """Run the model once and keep its layers.

    Without `output`, the forward pass stops after the last layer or, with `blocks_only`, after its
    attention block if possible. With `logits_at`, logits are computed only at these positions.
    """
    order = structure.calls
    watched: dict[str, set[HookPoint]] = {}
    for stack, index in order:  # a module may run several times, with or without cross-attention
        layer_structure = stack.layers[index]
        watched.setdefault(layer_structure.path, set()).update(layer_structure.watched)

    def watches(module: nn.Module, path: str, keep: Keep) -> list[Any]:
        return [watch(module, hook_point, keep) for hook_point in watched[path]]

    collector = _Kept(order, memory_budget)
    with torch.no_grad(), checks_wait():
        calls, model_output = layer_calls(
            model,
            inputs if logits_at is None else {**inputs, "logits_to_keep": logits_at},
            set(watched),
            structure.backend,
            on_layer=collector.take,
            watch=watches,
            stop_after=None if output else len(order),
            stop_inside=() if output or not blocks_only else _last_block(model, order),
            layouts=structure.layouts,
        )
    _require_all_called(order, calls)
    layers = _stack_layers(model, structure, calls, collector.internals, memory_budget)
    return CapturedPass(model_output, layers, collector.sources)


def capture_inputs(
    model: nn.Module,
    structure: ModelStructure,
    inputs: Inputs,
    *,
    memory_budget: int,
    graph: bool,
    logits_at: Int[Tensor, " position"] | None = None,
) -> CapturedPass:
    """Run the model once with its own attention, and keep the inputs of its layers.

    With `graph`, keep the autograd graph, to compute gradients of an output with respect to the
    input of every layer. The parameters are frozen in this pass, so that linear modules keep no
    inputs. With `logits_at`, compute logits only at these positions.
    """
    if graph:
        require_gradients(model)
    collector = _EnteringStates(model, structure, graph, memory_budget)
    order = structure.calls
    paths = {stack.layers[index].path for stack, index in order}
    frozen = constants(model) if graph else contextlib.nullcontext()
    with torch.set_grad_enabled(graph), frozen, checks_wait():
        calls, output = layer_calls(
            model,
            inputs if logits_at is None else {**inputs, "logits_to_keep": logits_at},
            paths,
            None,
            on_layer=collector.on_layer,
            on_enter=collector.on_enter,
            layouts=structure.layouts,
        )
    _require_all_called(order, calls)
    return CapturedPass(output, collector.stack_layers, entering_states=collector.entering_states)


Order = Sequence[tuple[StackStructure, int]]
"""Stack and layer of each call, in the order of the probe."""


def _require_as_probed(order: Order, number: int, call: LayerCall) -> None:
    """Raise `StructureDiffers` unless the probe called the same layer at this point."""
    if number >= len(order) or order[number][0].layers[order[number][1]].path != call.path:
        raise StructureDiffers(
            "the model calls its layers in a different order on this input than on the probe"
        )


def _require_all_called(order: Order, calls: Sequence[LayerCall]) -> None:
    """Raise `StructureDiffers` if the number of called layers differs from the probe's."""
    if len(calls) != len(order):
        raise StructureDiffers(
            f"the model called {len(calls)} layers on this input, but {len(order)} on the probe"
        )


def _require_finite(order: Order, number: int, path: str, output: Tensor) -> None:
    """Raise `NonFiniteActivations` if a layer returned NaN or infinity."""
    stack, index = order[number]
    error = not_finite(f"{index} of {stack.name} (`{path}`)", output)  # which holds no tensor

    def failure(_: float) -> NonFiniteActivations:
        return error

    output = output.detach()
    deferred = waiting_for(output)
    if deferred is not None:
        deferred.rows_are_finite(output, failure)
    else:
        lowest, highest = output.aminmax()  # NaN is both: one pass, and no copy
        require_small(0.0 * lowest + 0.0 * highest, 0.0, failure)


class _Kept:
    """Keeps the captured tensors of each layer, as long as they fit into the memory budget."""

    def __init__(self, order: Order, memory_budget: int) -> None:
        self.internals: list[list[Internals] | None] = []
        self.sources: dict[tuple[str, AttentionKind], int] = {}
        self._order, self._remaining = order, memory_budget

    def take(self, call: LayerCall, tensors: Mapping[Any, Tensor]) -> None:
        """Compare the next layer call with the probe, and keep its tensors if they fit into the
        budget.
        """
        position = len(self.internals)
        _require_as_probed(self._order, position, call)
        stack, index = self._order[position]
        expected = stack.layers[index].sites
        output = None if call.output is None else call.hidden_out
        layer_output = tensors[expected[-1].hook_point] if output is None else output
        _require_finite(self._order, position, call.path, layer_output)
        if len(expected) != len(call.attention):
            raise StructureDiffers(
                f"layer `{call.path}` calls attention {len(call.attention)} times on this "
                f"input, but {len(expected)} times on the probe"
            )
        parts = Internals.of_layer(call.attention, tensors, output, expected)
        for part, site in zip(parts, expected, strict=True):
            _, _, targets, count = part.attention.weights.shape
            if site.kinds == (AttentionKind.SELF,) and count != targets:
                raise StructureDiffers(
                    f"layer `{call.path}` reads {count} sources for {targets} tokens on this "
                    "input, but one source per token on the probe"
                )
            for kind in site.kinds:
                columns = range(count)[site.columns(kind, targets, count)]
                self.sources.setdefault((stack.name, kind), len(columns))
        size = sum(part.nbytes for part in parts)
        fits = size <= self._remaining
        self._remaining -= size if fits else 0
        self.internals.append(parts if fits else None)
        call.attention = []
        call.output = output


def _stack_layers(
    model: nn.Module,
    structure: ModelStructure,
    calls: Sequence[LayerCall],
    internals: Sequence[list[Internals] | None],
    memory_budget: int,
) -> dict[str, list[Layer]]:
    """Return the layers of each stack, in call order."""
    upcast, layers = list[UpcastModule](), dict[str, list[Layer]]()
    for (stack, index), call, parts in zip(structure.calls, calls, internals, strict=True):
        layer = Layer(
            model=model,
            backend=structure.backend,
            stack=stack,
            index=index,
            call=call,
            internals=parts,
            upcast=upcast,
            memory_budget=memory_budget,
        )
        layers.setdefault(stack.name, []).append(layer)
        if layer.native_input.shape[:2] != layers[stack.name][0].native_input.shape[:2]:
            raise StructureDiffers(
                f"layer `{call.path}` has a different number of texts or tokens than the "
                f"first of {stack.name}, but the same number on the probe"
            )
    return layers


def _last_block(model: nn.Module, order: Order) -> tuple[HookPoint, ...]:
    """Return the tensors to capture in the last layer if only its attention block is needed.

    The last of these tensors is the block's output, at which the forward pass can stop. Return an
    empty tuple if the layer must run to its end, because no module returns the block's output, the
    module that returns it runs twice, or hooks run at the end of the layer.
    """
    stack, index = order[-1]
    layer = stack.layers[index]
    has_blocks = all(
        site.hook_point and not site.parallel and not site.open for site in layer.sites
    )
    end = layer.sites[-1].hook_point
    if end is None or not has_blocks or layer.layout:
        return ()
    module = part_at(model, layer.path)
    shown_twice = parts_of(module).count(part_at(module, end.path)) > 1
    waits = shown_twice or is_moved(module) or hooks_inside(module, layer.path)
    return () if waits else (*(layer.blocks - {end}), end)


class _EnteringStates:
    """Collects the inputs of all layers in one forward pass and, with `graph`, keeps their autograd
    graph.
    """

    def __init__(
        self, model: nn.Module, structure: ModelStructure, graph: bool, memory_budget: int
    ) -> None:
        self.model, self.structure, self.graph = model, structure, graph
        self.memory_budget = memory_budget
        self.upcast: list[UpcastModule] = []
        self.stack_layers: dict[str, list[Layer]] = {}
        self.entering_states: dict[tuple[str, int], Tensor] = {}
        self.finished = 0

    def on_enter(self, number: int, call: LayerCall) -> Tensor | None:
        """Keep the input of a layer. With `graph`, return a copy for the layer to read."""
        _require_as_probed(self.structure.calls, number, call)
        stack, index = self.structure.calls[number]
        hidden = call.hidden_in
        layer = Layer(
            model=self.model,
            backend=None,
            stack=stack,
            index=index,
            call=LayerCall(call.path, call.module, (hidden.detach(),), {}),
            internals=None,
            upcast=self.upcast,
            memory_budget=self.memory_budget,
        )
        self.stack_layers.setdefault(stack.name, []).append(layer)
        if not self.graph:
            return None
        joins = hidden.clone() if hidden.requires_grad else hidden.detach().clone().requires_grad_()
        self.entering_states[stack.name, index] = joins
        return joins.clone()  # a layer may write into its input, but `joins` must stay unchanged

    def on_layer(self, call: LayerCall, tensors: object) -> None:
        """Check the output of a layer, then drop the arguments and the output of the call to free
        memory.
        """
        _require_finite(self.structure.calls, self.finished, call.path, call.hidden_out)
        self.finished += 1
        call.args, call.kwargs, call.output = (), {}, None
