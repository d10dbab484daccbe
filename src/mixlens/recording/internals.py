"""Tensors that a recording keeps of one attention call before it is rebuilt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from mixlens.capture.attention_call import AttentionCall
from mixlens.capture.witnesses import Witness
from mixlens.recording.deferred_checks import Doubts


@dataclass(frozen=True)
class Internals:
    """What a recording keeps of one attention site."""

    attention: AttentionCall
    seen: Mapping[Witness, Tensor]
    layer_output: Tensor | None  # None: the layer was left after its attention block
    doubts: Doubts | None = None  # if checks wait for the end of the pass

    @classmethod
    def of_layer(
        cls,
        calls: Sequence[AttentionCall],
        seen: Mapping[Witness, Tensor],
        output: Tensor | None,
        doubts: Doubts | None = None,
    ) -> list[Internals]:
        """One for each attention call of a layer."""
        return [cls(call, seen, output, doubts) for call in calls]

    @property
    def nbytes(self) -> int:
        """Of what is kept and of what a rebuilt site adds to it: grouped values repeated, the
        block's output and its parts.
        """
        call = self.attention
        tensors = [call.weights, call.values, call.output, *self.seen.values()]
        sizes = [tensor.numel() * tensor.element_size() for tensor in tensors]
        return sum(sizes) + 5 * max(sizes[2:])
