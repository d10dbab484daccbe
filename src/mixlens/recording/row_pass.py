"""The forward pass behind a recording of rows: each layer is cut to the wanted targets when it has
run, and handed on by itself or with layers that are like it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from mixlens.errors import RowsUnavailable
from mixlens.recording.calls import Keep, LayerCall, layer_calls
from mixlens.recording.capture import runnable_experts
from mixlens.recording.doubts import Doubts, not_finite
from mixlens.recording.internals import Internals
from mixlens.recording.layer import Layer
from mixlens.recording.like_layers import Gathering
from mixlens.recording.listener import AttentionCall
from mixlens.recording.native_attention import NativeCall, native_attention
from mixlens.recording.row_attention import RowAttention, Wanted, can_be_cut
from mixlens.recording.structure import LayerStructure
from mixlens.recording.wide import WideModules
from mixlens.recording.witnesses import watch

if TYPE_CHECKING:
    from mixlens.recording.rows import RowRecording

Visit = Callable[[Layer], None]


class _LayerByLayer:
    """Hands on each layer as it goes by."""

    def __init__(
        self, recording: RowRecording, attention: RowAttention, doubts: Doubts, visitor: Visit
    ) -> None:
        self._recording, self._attention = recording, attention
        self._doubts, self._visitor = doubts, visitor
        self._wide_modules = WideModules()
        self._heard: list[AttentionCall] = []

    def begin(self) -> None:
        """A layer is entered."""
        self._heard.clear()

    def hear(self, call: NativeCall) -> None:
        """Attention in the layer: its rows are formed at once, and nothing longer is kept."""
        self._heard.append(self._attention.call(call))

    def add(self, index: int, call: LayerCall, seen: Mapping[Any, Tensor]) -> None:
        """The layer has run."""
        wanted, doubts, wide_modules = self._attention.wanted, self._doubts, self._wide_modules
        heard = list(self._heard)
        self._visitor(
            cut_layer(self._recording, index, call, heard, seen, wanted, doubts, wide_modules)
        )
        self._heard.clear()

    def end(self) -> None:
        """All layers have run."""


def run_by_rows(recording: RowRecording, visitor: Visit) -> None:
    """Runs the model up to the end of the stack and hands on its layers, cut to the targets."""
    stack, joined = recording.site.stack, recording.layers_at_once > 1
    wanted = Wanted(recording.places, recording.targets, copied=not joined)
    shape = (recording.batch, recording.width)
    by_path = {layer.path: layer for layer in stack.layers}
    count, doubts = 0, Doubts(patient=recording.patient)
    way = Gathering if joined else _LayerByLayer
    layers = way(recording, RowAttention(wanted), doubts, visitor)

    def on_call(call: NativeCall) -> None:
        if inside and can_be_cut(call):
            layers.hear(call)

    inside: list[str] = []

    def on_enter(number: int, call: LayerCall) -> None:
        if call.hidden_in.shape[:2] != shape:
            raise RowsUnavailable(f"layer `{call.path}` takes other tokens than those of the text")
        inside.append(call.path)
        layers.begin()

    def on_layer(call: LayerCall, seen: Mapping[Any, Tensor]) -> None:
        nonlocal count
        inside.pop()
        if stack.layers[count].path != call.path:
            raise RowsUnavailable("the layers are called in a different order than on the probe")
        layers.add(count, call, seen)
        count += 1
        call.args, call.kwargs, call.output = (), {}, None

    def watches(module: nn.Module, path: str, keep: Keep) -> list[Any]:
        def rows(tensor: Tensor) -> Tensor:
            return wanted.of_witness(tensor) if inside else tensor

        return [watch(module, witness, keep, rows) for witness in by_path[path].watched]

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
        layers.end()
    if count != len(stack.layers):
        raise RowsUnavailable(f"{count} of {len(stack.layers)} layers were called on this input")
    doubts.settle()


def cut_layer(
    recording: RowRecording,
    index: int,
    call: LayerCall,
    heard: Sequence[AttentionCall],
    seen: Mapping[Any, Tensor],
    wanted: Wanted,
    doubts: Doubts,
    wide_modules: WideModules,
) -> Layer:
    """A layer that has just run, cut to some targets: attention and witnesses are cut already."""
    stack = recording.site.stack
    row = wanted.of_call(call)
    error = not_finite(f"`{row.path}`", row.hidden_out)
    doubts.rows_are_finite(row.hidden_out, lambda _: error)
    return Layer(
        model=recording.model,
        backend=recording.structure.backend,
        stack=stack,
        index=index,
        call=row,
        internals=_internals(row, heard, seen, stack.layers[index], doubts),
        wide_modules=wide_modules,
        whole=lambda: recording.short.stack_layers[stack.name][index],
    )


def _internals(
    call: LayerCall,
    heard: Sequence[AttentionCall],
    seen: Mapping[Any, Tensor],
    structure: LayerStructure,
    doubts: Doubts,
) -> list[Internals]:
    if len(heard) != len(structure.sites):
        raise RowsUnavailable(
            f"layer `{call.path}` made {len(heard)} attention calls that can be cut to rows, and"
            f" has {len(structure.sites)}"
        )
    return Internals.of_layer(heard, dict(seen), call.hidden_out, doubts)
