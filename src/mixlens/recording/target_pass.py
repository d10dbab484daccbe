"""Single-target mode: one forward pass with the model's own attention, decomposed by source for a
few targets only.

The model runs as it was loaded (sdpa, flash). Each layer is visited while the model runs,
restricted to the targets. Such a layer contains its input and output, the tensors for the checks,
the values of all sources and the attention weights of the targets (`target_attention`). Nothing of
size n x n is computed. The same checks run as for a recording of all targets: attention weights
times values must give the attention module's output for these targets, and the parts of the block
must add up.

In addition to the model's own forward pass, this needs memory for the attention weights of the
targets and a few tensors of one layer, plus any tensors that the visitor keeps.

`visit_down` visits the layers from the last to the first, for products of maps that are not stored.
One forward pass keeps the input of each layer. Then each layer runs once more with the model's own
attention, and its targets are computed, verified and visited in blocks. This needs memory for
layers x n x d_model numbers (the inputs of the layers, in the model's precision), for the queries,
keys, values, output and captured tensors of one layer, and for block x heads x n numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from mixlens.capture.attention_call import AttentionCall
from mixlens.capture.layer_calls import (
    Inputs,
    Keep,
    LayerCall,
    first_tensor,
    hooks_removed,
    layer_calls,
    watch,
)
from mixlens.capture.native_attention import NativeCall, native_attention
from mixlens.capture.rerun import UpcastModule
from mixlens.contracts import AttentionKind, Request, Targets
from mixlens.errors import TargetsUnavailable
from mixlens.model.placement import entry_device, sent
from mixlens.recording.deferred_checks import DeferredChecks, not_finite
from mixlens.recording.forward_pass import capture_layers
from mixlens.recording.layer import Layer
from mixlens.recording.rebuilding import Internals
from mixlens.recording.span_scores import targets_at_once
from mixlens.recording.target_attention import TargetAttention, TargetCut, can_be_cut
from mixlens.structure.model_structure import AttentionSite, ModelStructure
from mixlens.structure.probe import short_probe
from mixlens.text.tokens import TokenRow

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording
    from mixlens.text.inputs import Prepared

Visitor = Callable[[int, Layer, Targets], None]
"""Takes the index of a layer among those of its attention, the layer, and its targets."""

Blocks = Callable[[int], Sequence[Sequence[int]]]
"""Returns the required targets of a layer in blocks, when the layer is reached."""


def require_cuttable(structure: ModelStructure, site: AttentionSite) -> None:
    """Raise `TargetsUnavailable` if single-target mode cannot support this attention."""
    if any(layer.layout is not None for layer in site.stack.layers):
        raise TargetsUnavailable(
            "its layers are not modules that take and return [batch, tokens, d_model]"
        )
    if any(layer.open is not None for layer in site.stack.layers):
        raise TargetsUnavailable(
            "the rest of the layer after its attention runs on whole sequences"
        )
    if structure.whole or len(site.numbers) != len(site.stack.layers):
        raise TargetsUnavailable(
            "its structure can be inferred only from the whole input, or some layers do not have "
            "this attention"
        )
    if site.kind is AttentionKind.CROSS and len(structure.stacks) != 2:
        raise TargetsUnavailable(
            "the stack that its cross-attention reads is known only after the model has run"
        )
    if any(part.own_sources for layer in site.stack.layers for part in layer.sites):
        raise TargetsUnavailable("its attention reads two stacks at once")
    if structure.backend != "interface":
        raise TargetsUnavailable(
            "its attention does not go through transformers' attention interface"
        )


def tokens_before_pass(structure: ModelStructure, ready: Prepared) -> dict[str, Sequence[TokenRow]]:
    """Return the tokens of each stack, as far as they are known before the model runs.

    In a model with several towers, only the last tower is included, and only if it is a causal
    language model that reads the text. With more than two stacks, a stack is left out if it may
    read the output of another stack instead of the text.
    """
    last, stacks = structure.calls[-1][0], structure.stacks
    if len(stacks) > 1 and not any(stack.has_cross for stack in stacks):
        stacks = (last,) if last.layers[0].sites[0].causal else ()
    tokens: dict[str, Sequence[TokenRow]] = {}
    for stack in stacks:
        decoder = stack.has_cross or len(structure.stacks) == 1
        stack_tokens = ready.decoder_rows if decoder and ready.decoder_rows else ready.rows
        unsure = len(stacks) > 2 and stack_tokens is ready.rows  # BLT: patches of the text
        if stack_tokens is not None and not unsure:
            tokens[stack.name] = stack_tokens
    return tokens


def visit_up(recording: Recording, request: Request, visitor: Visitor) -> None:
    """Run the model up to the end of the stack, and call `visitor` with each requested layer.

    Each layer is restricted to the requested targets.
    """
    assert request.targets is not None
    blocks = target_blocks(recording, request)
    if len(blocks) > 1:
        request = request.in_order()
    cut, layers = TargetCut(targets_of(recording, request)), LayerCut(recording, request)
    attention = TargetAttention(cut)
    captured: list[AttentionCall] = []
    native: list[NativeCall] = []

    def on_call(call: NativeCall) -> None:
        if len(blocks) > 1:  # all weights do not fit, so they are computed block by block
            native.append(call if cut.places.shape[1] == recording.width else cut.call(call))
        else:
            captured.append(attention.call(call))

    def on_layer(index: int, call: LayerCall, tensors: Mapping[Any, Tensor]) -> None:
        calls, native_calls = list(captured), list(native)
        captured.clear()
        native.clear()
        if len(blocks) == 1:
            layer = layers.cut(index, call, calls, tensors, cut)
            if index in request.layers:
                visitor(index, layer, cut.targets)
            return
        for block in blocks:
            part = TargetCut(cut.targets.block(block), outer=cut)
            calls = [TargetAttention(part).call(each) for each in native_calls]
            block_tensors = {point: tensor[:, block] for point, tensor in tensors.items()}
            layer = layers.cut(index, call, calls, block_tensors, part)
            if index in request.layers:
                visitor(index, layer, part.targets)

    run_layers(recording, layers, cut, on_call, on_layer)
    layers.deferred.settle()


def targets_of(recording: Recording, request: Request) -> Targets:
    """Return the requested targets as `Targets` for layers that are restricted to these targets."""
    places = torch.tensor(request.targets)
    return request.chosen(recording, sent(places, entry_device(recording.model)))


def run_layers(
    recording: Recording,
    layers: LayerCut,
    cut: TargetCut,
    on_call: Callable[[NativeCall], None],
    on_layer: Callable[[int, LayerCall, Mapping[Any, Tensor]], None],
    whole_inputs: Inputs | None = None,
) -> Any:
    """Run the model up to the end of the stack, and call `on_call` and `on_layer` as it runs.

    `on_call` receives each attention call. `on_layer` receives each layer, with the captured
    tensors restricted to the targets.

    If you pass `whole_inputs`, the whole model runs on these inputs, with a graph if autograd is
    enabled, and its output is returned. The captured tensors never belong to the graph.
    """
    shape = (recording.batch, recording.width)
    paths = [layer.path for layer in layers.stack.layers]
    by_path = {layer.path: layer for layer in layers.stack.layers}
    is_whole, count = whole_inputs is not None, 0
    inside: list[str] = []

    def on_attention(call: NativeCall) -> None:
        if inside and can_be_cut(call):
            on_call(call.detach() if torch.is_grad_enabled() else call)

    def on_enter(number: int, call: LayerCall) -> None:
        if call.hidden_in.shape[:2] != shape:
            raise TargetsUnavailable(
                f"layer `{call.path}` receives different tokens than the text has"
            )
        inside.append(call.path)

    def on_end(call: LayerCall, tensors: Mapping[Any, Tensor]) -> None:
        nonlocal count
        inside.pop()
        if count == len(paths) or paths[count] != call.path:
            raise TargetsUnavailable("the layers are called in a different order than on the probe")
        with torch.no_grad():
            on_layer(count, call, tensors)
        count += 1
        call.args, call.kwargs, call.output = (), {}, None

    def watches(module: nn.Module, path: str, keep: Keep) -> list[Any]:
        def select_targets(tensor: Tensor) -> Tensor:
            tensor = tensor.detach() if tensor.requires_grad else tensor
            return cut.of_captured(tensor) if inside else tensor

        return [
            watch(module, hook_point, keep, select_targets) for hook_point in by_path[path].watched
        ]

    with (
        torch.set_grad_enabled(is_whole and torch.is_grad_enabled()),
        native_attention(on_attention),
    ):
        _, output = layer_calls(
            recording.model,
            recording.inputs if whole_inputs is None else whole_inputs,
            set(by_path),
            None,
            on_layer=on_end,
            on_enter=on_enter,
            watch=watches,
            stop_after=None if is_whole else len(paths),
        )
    if count != len(paths):
        raise TargetsUnavailable(f"{count} of {len(paths)} layers were called on this input")
    return output


def target_blocks(recording: Recording, request: Request) -> list[slice]:
    """Split the requested targets into blocks that are scored together.

    There is only one block, unless a span does not fit into memory.
    """
    assert request.targets is not None
    count = size = len(request.targets[0])
    if request.span is not None:
        layers = recording.structure.stack_of(request.site).layers
        heads = max(site.heads for layer in layers for site in layer.sites)
        sources = max(recording.source_lengths(request.site))
        size = targets_at_once(heads, sources, recording.batch, entry_device(recording.model))
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def visit_down(recording: Recording, request: Request, visitor: Visitor, blocks: Blocks) -> None:
    """Call `visitor` with every layer of the stack, from the last to the first, in blocks of
    targets.
    """
    if recording.batch != 1:
        raise TargetsUnavailable(
            "blocks of targets need a single text, but the recording has several"
        )
    layers = LayerCut(recording, request)
    with torch.no_grad():
        calls = _run_stack(recording, layers)
        while calls:
            index, call = len(calls) - 1, calls.pop()
            needed = blocks(index)
            captured, tensors = _run_again(layers, index, call)
            for block in needed:
                block_request = replace(request, targets=(tuple(block),))
                places = torch.tensor(block_request.targets, device=call.hidden_in.device)
                cut = TargetCut(block_request.chosen(recording, places))
                attention = TargetAttention(cut)
                calls_of_block = [attention.call(each) for each in captured]
                block_tensors = {
                    point: cut.of_captured(tensor) for point, tensor in tensors.items()
                }
                layer = layers.cut(index, call, calls_of_block, block_tensors, cut)
                visitor(index, layer, cut.targets)
            layers.deferred.settle()


class LayerCut:
    """Restricts the layers of one forward pass to the requested targets."""

    def __init__(self, recording: Recording, request: Request) -> None:
        site = recording.structure.site(request.site)
        require_cuttable(recording.structure, site)
        self.stack = site.stack
        self.deferred: DeferredChecks = DeferredChecks()
        self._recording = recording
        self._upcast: list[UpcastModule] = []

    @functools.cached_property
    def _short(self) -> Sequence[Layer]:
        """Return all layers of the stack, recorded on about a dozen tokens.

        Checks that must re-run a layer use these short layers instead of the restricted layers.
        """
        recording = self._recording
        model, inputs = recording.model, recording.words or recording.inputs
        short = capture_layers(
            model,
            recording.structure,
            short_probe(inputs, model).inputs,
            memory_budget=recording.memory_budget,
            output=False,
        )
        return short.stack_layers[self.stack.name]

    def cut(
        self,
        index: int,
        call: LayerCall,
        captured: Sequence[AttentionCall],
        tensors: Mapping[Any, Tensor],
        cut: TargetCut,
    ) -> Layer:
        """Return a layer that has just run, restricted to some targets.

        `captured` and `tensors` must already be restricted to these targets.
        """
        cut_call = cut.of_layer(call)
        error = not_finite(f"`{cut_call.path}`", cut_call.hidden_out)
        self.deferred.rows_are_finite(cut_call.hidden_out, lambda _: error)
        sites = self.stack.layers[index].sites
        if len(captured) != len(sites):
            raise TargetsUnavailable(
                f"layer `{call.path}` made {len(captured)} attention calls that can be "
                f"restricted to targets, but has {len(sites)} attentions"
            )
        return Layer(
            model=self._recording.model,
            backend=self._recording.structure.backend,
            stack=self.stack,
            index=index,
            call=cut_call,
            internals=Internals.of_layer(
                captured, dict(tensors), cut_call.hidden_out, sites, self.deferred
            ),
            upcast=self._upcast,
            memory_budget=self._recording.memory_budget,
            whole=lambda: self._short[index],
        )


def _run_stack(recording: Recording, layers: LayerCut) -> list[LayerCall]:
    """Run the stack, and return the call of each layer. Outputs are dropped to save memory."""
    paths = [layer.path for layer in layers.stack.layers]

    def on_layer(call: LayerCall, tensors: object) -> None:
        call.output = None

    calls, _ = layer_calls(
        recording.model,
        recording.inputs,
        set(paths),
        None,
        on_layer=on_layer,
        stop_after=len(paths),
    )
    if [call.path for call in calls] != paths:
        raise TargetsUnavailable("the layers are called in a different order than on the probe")
    return calls


def _run_again(
    layers: LayerCut, index: int, call: LayerCall
) -> tuple[list[NativeCall], Mapping[Any, Tensor]]:
    """Run one layer with the model's own attention, and return its attention calls and captured
    tensors.

    Both contain all targets.
    """
    captured: list[NativeCall] = []
    tensors: dict[Any, Tensor] = {}

    def on_call(call: NativeCall) -> None:
        if can_be_cut(call):
            captured.append(call)

    handles: list[Any] = []
    with hooks_removed(handles), native_attention(on_call):
        for hook_point in layers.stack.layers[index].watched:
            handles.append(watch(call.module, hook_point, tensors.__setitem__))
        call.output = first_tensor(call.module(*call.args, **call.kwargs))
    return captured, tensors
