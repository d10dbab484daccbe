"""Tensors that a recording keeps of one attention call before it is rebuilt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from mixlens.capture.attention_call import AttentionCall
from mixlens.capture.hook_points import HookPoint
from mixlens.recording.deferred_checks import DeferredChecks


@dataclass(frozen=True)
class Internals:
    """What a recording keeps of one attention site."""

    attention: AttentionCall
    seen: Mapping[HookPoint, Tensor]
    layer_output: Tensor | None  # None: the layer was left after its attention block
    deferred: DeferredChecks | None = None  # if checks wait for the end of the pass

    @classmethod
    def of_layer(
        cls,
        calls: Sequence[AttentionCall],
        seen: Mapping[HookPoint, Tensor],
        output: Tensor | None,
        deferred: DeferredChecks | None = None,
    ) -> list[Internals]:
        """One for each attention call of a layer."""
        return [cls(call, seen, output, deferred) for call in calls]

    @property
    def nbytes(self) -> int:
        """Of what is kept and of what a rebuilt site adds to it: grouped values repeated, the
        block's output and its parts.
        """
        call = self.attention
        tensors = [call.weights, call.values, call.output, *self.seen.values()]
        sizes = [tensor.numel() * tensor.element_size() for tensor in tensors]
        return sum(sizes) + 5 * max(sizes[2:])
