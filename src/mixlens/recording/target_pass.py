"""The forward pass of single-target mode: each layer is cut to its targets once it has run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from mixlens.capture.attention_call import AttentionCall
from mixlens.capture.attention_capture import runnable_experts
from mixlens.capture.hook_points import watch
from mixlens.capture.layer_calls import Keep, LayerCall, layer_calls
from mixlens.capture.native_attention import NativeCall, native_attention
from mixlens.errors import TargetsUnavailable
from mixlens.recording.deferred_checks import DeferredChecks, not_finite
from mixlens.recording.internals import Internals
from mixlens.recording.layer import Layer
from mixlens.recording.target_attention import RowAttention, Wanted, can_be_cut
from mixlens.recording.upcast import UpcastModules
from mixlens.structure.layer_structure import LayerStructure

if TYPE_CHECKING:
    from mixlens.recording.few_targets import RowRecording

Visit = Callable[[Layer], None]


def run_by_rows(recording: RowRecording, visitor: Visit) -> None:
    """Run the model up to the end of the stack and hand on its layers, cut to the targets."""
    stack = recording.site.stack
    wanted = Wanted(recording.places, recording.targets)
    attention, upcast_modules = RowAttention(wanted), UpcastModules()
    shape = (recording.batch, recording.width)
    by_path = {layer.path: layer for layer in stack.layers}
    count, deferred = 0, DeferredChecks()
    inside: list[str] = []
    captured: list[AttentionCall] = []

    def on_call(call: NativeCall) -> None:
        if inside and can_be_cut(call):
            captured.append(attention.call(call))

    def on_enter(number: int, call: LayerCall) -> None:
        if call.hidden_in.shape[:2] != shape:
            raise TargetsUnavailable(
                f"layer `{call.path}` takes other tokens than those of the text"
            )
        inside.append(call.path)
        captured.clear()

    def on_layer(call: LayerCall, seen: Mapping[Any, Tensor]) -> None:
        nonlocal count
        inside.pop()
        if stack.layers[count].path != call.path:
            raise TargetsUnavailable("the layers are called in a different order than on the probe")
        calls = list(captured)
        captured.clear()
        visitor(cut_layer(recording, count, call, calls, seen, wanted, deferred, upcast_modules))
        count += 1
        call.args, call.kwargs, call.output = (), {}, None

    def watches(module: nn.Module, path: str, keep: Keep) -> list[Any]:
        def rows(tensor: Tensor) -> Tensor:
            return wanted.of_witness(tensor) if inside else tensor

        return [watch(module, hook_point, keep, rows) for hook_point in by_path[path].watched]

    with torch.no_grad(), native_attention(on_call), runnable_experts(recording.model):
        layer_calls(
            recording.model,
            recording.inputs,
            set(by_path),
            None,
            on_layer=on_layer,
            on_enter=on_enter,
            watch=watches,
            stop_after=len(stack.layers),
        )
    if count != len(stack.layers):
        raise TargetsUnavailable(f"{count} of {len(stack.layers)} layers were called on this input")
    deferred.settle()


def cut_layer(
    recording: RowRecording,
    index: int,
    call: LayerCall,
    captured: Sequence[AttentionCall],
    seen: Mapping[Any, Tensor],
    wanted: Wanted,
    deferred: DeferredChecks,
    upcast_modules: UpcastModules,
) -> Layer:
    """A layer that has just run, cut to some targets: attention and witnesses are cut already."""
    stack = recording.site.stack
    row = wanted.of_call(call)
    error = not_finite(f"`{row.path}`", row.hidden_out)
    deferred.rows_are_finite(row.hidden_out, lambda _: error)
    return Layer(
        model=recording.model,
        backend=recording.structure.backend,
        stack=stack,
        index=index,
        call=row,
        internals=_internals(row, captured, seen, stack.layers[index], deferred),
        upcast_modules=upcast_modules,
        memory_budget=recording.memory_budget,
        whole=lambda: recording.short.stack_layers[stack.name][index],
    )


def _internals(
    call: LayerCall,
    captured: Sequence[AttentionCall],
    seen: Mapping[Any, Tensor],
    structure: LayerStructure,
    deferred: DeferredChecks,
) -> list[Internals]:
    if len(captured) != len(structure.sites):
        raise TargetsUnavailable(
            f"layer `{call.path}` made {len(captured)} attention calls that can be cut to rows, and"
            f" has {len(structure.sites)}"
        )
    return Internals.of_layer(captured, dict(seen), call.hidden_out, deferred)
