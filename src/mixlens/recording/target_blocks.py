"""All targets of every layer in blocks, from the last layer down, for products of maps that are
never stored.

One forward pass keeps what entered each layer. Then each layer runs once more with the model's own
attention, and its rows are formed, proved and handed on in blocks.

Memory above the model's own forward pass: layers x n x d_model numbers for the inputs of the layers
(in the model's precision), the queries, keys, values, output and witnesses of one layer, and
block x heads x n numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from mixlens.capture.attention_capture import runnable_experts
from mixlens.capture.hook_points import watch
from mixlens.capture.layer_calls import LayerCall, first_tensor, hooks_removed, layer_calls
from mixlens.capture.native_attention import NativeCall, native_attention
from mixlens.errors import TargetsUnavailable
from mixlens.recording.deferred_checks import DeferredChecks
from mixlens.recording.few_targets import RowRecording
from mixlens.recording.layer import Layer
from mixlens.recording.target_attention import RowAttention, Wanted, can_be_cut
from mixlens.recording.target_pass import cut_layer
from mixlens.recording.upcast import UpcastModules

Blocks = Callable[[int], Sequence[Sequence[int]]]
"""The targets of a layer that are needed, in blocks; asked when it is that layer's turn."""


def visit_blocks(
    recording: RowRecording, blocks: Blocks, visitor: Callable[[Layer, Sequence[int]], None]
) -> None:
    """Hands on every layer of the stack, the last first, cut to each block of its targets."""
    if recording.batch != 1:
        raise TargetsUnavailable("several texts at once: blocks are taken of one")
    deferred, upcast_modules = DeferredChecks(), UpcastModules()
    with torch.no_grad(), runnable_experts(recording.model):
        calls = _entered(recording)
        while calls:
            index, call = len(calls) - 1, calls.pop()
            needed = blocks(index)
            captured, seen = _run_again(recording, index, call)
            for block in needed:
                places = torch.tensor([list(block)], device=call.hidden_in.device)
                wanted = Wanted(places, [block])
                attention = RowAttention(wanted)
                layer = cut_layer(
                    recording,
                    index,
                    call,
                    [attention.call(each) for each in captured],
                    {hook_point: wanted.of_witness(tensor) for hook_point, tensor in seen.items()},
                    wanted,
                    deferred,
                    upcast_modules,
                )
                visitor(layer, block)
            deferred.settle()


def _entered(recording: RowRecording) -> list[LayerCall]:
    """What each layer of the stack was called with."""
    stack = recording.site.stack
    paths = [layer.path for layer in stack.layers]

    def on_layer(call: LayerCall, seen: object) -> None:
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
    recording: RowRecording, index: int, call: LayerCall
) -> tuple[list[NativeCall], Mapping[Any, Tensor]]:
    """Runs one layer as the model did: its attention calls and its witnesses, of all targets."""
    captured: list[NativeCall] = []
    seen: dict[Any, Tensor] = {}

    def on_call(call: NativeCall) -> None:
        if can_be_cut(call):
            captured.append(call)

    handles: list[Any] = []
    with hooks_removed(handles), native_attention(on_call):
        for hook_point in recording.site.stack.layers[index].watched:
            handles.append(watch(call.module, hook_point, seen.__setitem__))
        call.output = first_tensor(call.module(*call.args, **call.kwargs))
    return captured, seen
