"""Keep the layers of one forward pass, restricted to some targets, and score them later.

The target weights of one span may depend on the scores of another span (`mixlens.answers.hops`) or
on a gradient of the output, so they are not all known while the model runs. The forward pass
therefore keeps the tensors from which attention weights are computed later: the queries and outputs
of the targets, and the keys and values of all sources. This takes layers x n x 2 x (key heads x
d_head) numbers in the precision of the model, and a few vectors for each target.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mixlens.capture.layer_calls import Inputs, LayerCall
from mixlens.capture.native_attention import NativeCall
from mixlens.contracts import Request
from mixlens.recording.target_attention import TargetAttention, TargetCut
from mixlens.recording.target_pass import (
    LayerCut,
    Visitor,
    run_layers,
    target_blocks,
    targets_of,
)

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording


class PassedLayers:
    """Layers of one forward pass over one text, restricted to some targets."""

    def __init__(self, targets: Iterable[int]) -> None:
        self.targets: tuple[int, ...] = tuple(sorted(set(targets)))
        self._layers: list[tuple[LayerCall, list[NativeCall], dict[Any, Tensor]]] = []

    def visit(self, recording: Recording, request: Request, visitor: Visitor) -> None:
        """Call `visitor` with every requested layer, restricted to the requested targets.

        The requested targets must be among `self.targets`. The model runs only at the first call;
        later calls reuse its layers.
        """
        layers, request_cut = self._cut(recording, request)
        if not self._layers:
            self._run(recording, layers, request_cut)
        targets = targets_of(recording, request)
        blocks = target_blocks(recording, request)
        cuts = [TargetCut(targets.block(block), request_cut) for block in blocks]
        attention = TargetAttention(cuts[0])  # which computes a mask once for all layers
        with torch.no_grad():
            for index in sorted(set(request.layers)):
                call, native, tensors = self._layers[index]
                for cut in cuts:
                    if len(cuts) > 1:  # masks of all blocks would not fit
                        attention = TargetAttention(cut)
                    calls = [attention.call(each) for each in native]
                    cut_tensors = {point: cut.of(tensor, 1) for point, tensor in tensors.items()}
                    visitor(index, layers.cut(index, call, calls, cut_tensors, cut), cut.targets)
        layers.deferred.settle()

    def run_with_output(self, recording: Recording, request: Request, inputs: Inputs) -> Any:
        """Run the whole model on `inputs`, keep its layers for `visit`, and return its output.

        If autograd is enabled, the output belongs to a graph.
        """
        layers, request_cut = self._cut(recording, request)
        return self._run(recording, layers, request_cut, inputs)

    def _cut(self, recording: Recording, request: Request) -> tuple[LayerCut, TargetCut]:
        of_all = replace(request, targets=(self.targets,), span=None)
        return LayerCut(recording, request), TargetCut(targets_of(recording, of_all))

    def _run(
        self,
        recording: Recording,
        layers: LayerCut,
        request_cut: TargetCut,
        whole_inputs: Inputs | None = None,
    ) -> Any:
        native: list[NativeCall] = []
        is_whole = len(self.targets) == recording.width

        def on_call(call: NativeCall) -> None:
            native.append(call if is_whole else request_cut.call(call))

        def on_layer(index: int, call: LayerCall, tensors: Mapping[Any, Tensor]) -> None:
            self._layers.append((request_cut.of_layer(call), list(native), dict(tensors)))
            native.clear()

        return run_layers(recording, layers, request_cut, on_call, on_layer, whole_inputs)
