"""Like layers of a short prompt, gathered as they go by and measured together, as if they were
texts of one batch.

What is gathered of a layer: its keys and values, and one row of everything else. Rows are not
copied. If a layer writes over one, the checks see it.

Layers are alike if they are built in the same way, have the same mask and are on the same device.
Each has been measured by itself before, so what must be proved of it once is proved.

If anything is not as it should be, `LookAgain` is raised: the pass is made again, layer by layer,
and says what is wrong with which layer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor, nn

from mixlens.contracts import AttentionKind
from mixlens.errors import LookAgain
from mixlens.kernels.chunks import rows_at_once
from mixlens.recording.bare_products import part_at
from mixlens.recording.calls import LayerCall
from mixlens.recording.internals import Internals
from mixlens.recording.layer import Layer
from mixlens.recording.projection import plain_matrix
from mixlens.recording.remembered import Remembered
from mixlens.recording.side_by_side import SideBySide
from mixlens.recording.wide import WideModules, bytes_of_a_row

if TYPE_CHECKING:
    from mixlens.recording.doubts import Doubts
    from mixlens.recording.model_structure import StackStructure
    from mixlens.recording.native_attention import NativeCall
    from mixlens.recording.row_attention import RowAttention
    from mixlens.recording.rows import RowRecording
    from mixlens.recording.structure import LayerStructure, Witness

_FURTHER = ("softcap", "position_bias", "s_aux")  # what else attention may be given


def _kind(call: NativeCall) -> Hashable:
    """Calls with the same are computed in one go."""
    if any(call.options.get(name) is not None for name in _FURTHER):
        raise LookAgain("its attention is given more than a scale and a mask")
    same = [call.options.get(name) for name in ("scaling", "is_causal", "sliding_window")]
    shapes = call.query.shape, call.key.shape, call.value.shape
    causal = getattr(call.module, "is_causal", None)
    return id(call.mask), *same, causal, shapes, call.key.dtype, call.key.device


class LikeLayers(Layer):
    """Consecutive layers that are built alike, along the batch axis of one text each."""

    def __init__(self, *, first: int, count: int, stack: StackStructure, **parts: Any) -> None:
        super().__init__(stack=stack, index=first, whole=self.require_alone, **parts)
        self.count = count

    @property
    def members(self) -> Sequence[tuple[nn.Module, LayerStructure]]:
        """The layers, each with its structure."""
        structures = self.stack.layers[self.index : self.index + self.count]
        modules = self.submodule("")
        assert isinstance(modules, SideBySide)
        return list(zip(modules, structures, strict=True))

    @property
    def signature(self) -> Hashable:
        """That of each."""
        module, structure = self.members[0]
        return structure.signature(module), self.has_one_token

    @property
    def module(self) -> nn.Module:
        """None of them is run again."""
        self.require_alone()

    def require_alone(self) -> NoReturn:
        """They are several."""
        raise LookAgain("layers are needed one by one")


class Gathering:
    """Gathers the layers of a pass and hands on like ones together."""

    def __init__(
        self,
        recording: RowRecording,
        attention: RowAttention,
        doubts: Doubts,
        visitor: Callable[[Layer], None],
    ) -> None:
        self._recording, self._attention = recording, attention
        self._doubts, self._visitor = doubts, visitor
        self._heard_here: list[NativeCall] = []  # in the layer that runs
        self._first = 0
        self._kind: Hashable = None
        self._calls: list[LayerCall] = []
        self._heard: list[NativeCall] = []
        self._seen: list[Mapping[Witness, Tensor]] = []

    def begin(self) -> None:
        """A layer is entered."""
        self._heard_here.clear()

    def hear(self, call: NativeCall) -> None:
        """Attention in the layer; the prompt is so short that its tensors may wait."""
        self._heard_here.append(call)

    def add(self, index: int, call: LayerCall, seen: Mapping[Witness, Tensor]) -> None:
        """The layer has run."""
        if len(self._heard_here) != 1:
            raise LookAgain("a layer made several attention calls, or none")
        if not call.is_readable:
            raise LookAgain("the weights of a layer are away, or packed")
        heard = self._heard_here[0]
        kind = _kind(heard)
        if kind != self._kind or len(self._calls) == self._recording.layers_at_once:
            self.end()
            self._first, self._kind = index, kind
        self._calls.append(self._attention.wanted.of_call(call))
        self._heard.append(heard)
        self._seen.append(seen)

    def end(self) -> None:
        """Hands on those gathered so far."""
        if not self._calls:
            return
        calls, heard, seen = self._calls, self._heard, self._seen
        self._calls, self._heard, self._seen = [], [], []
        recording, first, stack = self._recording, self._first, self._recording.site.stack
        wanted = self._attention.wanted
        attention = self._attention.call(
            replace(
                heard[0],
                query=torch.cat([wanted.of(each.query, 2, copied=False) for each in heard]),
                key=torch.cat([each.key for each in heard]),
                value=torch.cat([each.value for each in heard]),
                output=torch.cat([wanted.of(each.output, 1, copied=False) for each in heard]),
            ),
            heard[0].query.shape[2],
        )
        output = torch.cat([call.hidden_out for call in calls])
        self._doubts.rows_are_finite(output, lambda _: LookAgain("a layer returned no numbers"))
        witnesses = {
            witness: torch.cat([each[witness].view_as(calls[0].hidden_out) for each in seen])
            for witness in seen[0]
        }
        module = _side_by_side(recording.model, stack, first, len(calls))
        given = torch.cat([call.hidden_in for call in calls])
        joined = LayerCall(calls[0].path, module, (given,), {}, output=output)
        self._visitor(
            LikeLayers(
                first=first,
                count=len(calls),
                stack=stack,
                model=recording.model,
                backend=recording.structure.backend,
                call=joined,
                internals=Internals.of_layer([attention], witnesses, output, self._doubts),
                wide_modules=WideModules(),
            )
        )


def like_layers_at_once(recording: RowRecording) -> int:
    """How many like layers fit into memory together, or 1 if they cannot be measured so.

    1 on a CPU: there it would save little, and the first call of a measure, which goes layer by
    layer, would differ from the next one in the last bit.
    """
    stack, model = recording.site.stack, recording.model
    if not recording.patient or recording.batch > 1 or len(recording.targets[0]) > 1:
        return 1
    if not _known.of(model, stack, lambda: _alike(stack.layers)):
        return 1
    layer = part_at(model, stack.layers[0].path)
    matrix = plain_matrix(part_at(layer, stack.layers[0].sites[0].output_projection))
    if matrix is None or matrix.is_meta:
        return 1
    row_bytes = bytes_of_a_row(layer, int(matrix.shape[1]), matrix.dtype)
    rows = rows_at_once(row_bytes, recording.memory_budget, matrix.device)
    return max(1, min(len(stack.layers), rows // recording.width))


def _alike(layers: Sequence[LayerStructure]) -> bool:
    """Are all of them one attention and one feed-forward part, each after its norm?"""
    return all(map(_is_simple, layers)) and len({_build(layer) for layer in layers}) == 1


def _build(layer: LayerStructure) -> Hashable:
    return layer.sites, layer.feed_forward


def _is_simple(layer: LayerStructure) -> bool:
    feed_forward, site = layer.feed_forward, layer.sites[0]
    return (
        len(layer.sites) == 1
        and layer.style == "pre"
        and not layer.has_other_parts
        and feed_forward is not None
        and feed_forward.output_norm is None
        and site.kind is AttentionKind.SELF
        and not (site.gated or site.branch or site.residual_from or site.own_sources)
        and isinstance(site.branch_scale, float)
        and isinstance(feed_forward.branch_scale, float)
    )


_known: Remembered[bool] = Remembered()
_modules: Remembered[SideBySide] = Remembered()


def _side_by_side(model: nn.Module, stack: StackStructure, first: int, count: int) -> SideBySide:
    paths = tuple(layer.path for layer in stack.layers[first : first + count])
    return _modules.of(model, paths, lambda: SideBySide(tuple(part_at(model, p) for p in paths)))
