"""Layers of one forward pass, kept for several spans of the same targets.

The weights of a span may depend on the scores of another one (`mixlens.answers.hops`). Then one
forward pass keeps what the attention weights of these targets are computed from: the queries and
outputs of the targets, and the keys and values of all sources. Memory: layers x n x 2 x (heads of
keys x d_head) numbers in the precision of the model, and a few vectors for each target.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mixlens.capture.layer_calls import LayerCall
from mixlens.capture.native_attention import NativeCall
from mixlens.contracts import Request
from mixlens.model.placement import entry_device, sent
from mixlens.recording.target_attention import RowAttention, Wanted
from mixlens.recording.target_pass import LayerCut, Visitor, run_layers, target_blocks

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording


class PassedLayers:
    """The layers of one pass over one text, cut to these targets."""

    def __init__(self, recording: Recording, targets: Iterable[int]) -> None:
        self.targets = tuple(sorted(set(targets)))
        places = sent(torch.tensor([self.targets]), entry_device(recording.model))
        self._wanted = Wanted(places, [self.targets])
        self._whole = len(self.targets) == recording.width
        self._layers: list[tuple[LayerCall, list[NativeCall], dict[Any, Tensor]]] = []

    def visit(self, recording: Recording, request: Request, visitor: Visitor) -> None:
        """Pass on every requested layer, cut to the requested targets, which are some of these. The
        model runs at the first call alone.
        """
        assert request.targets is not None
        cut = LayerCut(recording, request)
        if not self._layers:
            self._run(recording, cut)
        among = [self.targets.index(place) for place in request.targets[0]]
        wanted = self._wanted.part(among)
        targets = request.chosen(recording, wanted.targets)
        blocks = target_blocks(recording, request)
        attention = RowAttention(wanted)  # which computes a mask once for all layers
        with torch.no_grad():
            for index in sorted(set(request.layers)):
                call, native, seen = self._layers[index]
                for block in blocks:
                    here, rows = wanted, attention
                    if len(blocks) > 1:
                        here = self._wanted.part(among[block])
                        rows = RowAttention(here)
                    calls = [rows.call(each) for each in native]
                    own = {point: tensor[:, among[block]] for point, tensor in seen.items()}
                    layer = cut.layer(index, call, calls, own, here)
                    visitor(index, layer, targets.block(block))
        cut.deferred.settle()

    def _run(self, recording: Recording, cut: LayerCut) -> None:
        native: list[NativeCall] = []

        def on_call(call: NativeCall) -> None:
            native.append(call if self._whole else self._wanted.cut(call))

        def on_layer(index: int, call: LayerCall, seen: Mapping[Any, Tensor]) -> None:
            self._layers.append((self._wanted.of_call(call), list(native), dict(seen)))
            native.clear()

        run_layers(recording, cut, self._wanted, on_call, on_layer)
