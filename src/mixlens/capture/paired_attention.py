"""Attention of two streams in one layer (words and boxes of LXMERT), one call each.

The streams form one sequence, one after the other. Two consecutive calls, one from each stream, are
blocks of one map: on its diagonal if each stream reads itself, off the diagonal if each reads the
other. The numbers of tokens show which stream a call is from and which one it reads, so they must
differ.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mixlens.capture.attention_call import AttentionCall, Listener
from mixlens.kernels.visibility import Visibility


class PairedAttention(Listener):
    """Combine the calls of two streams into pairs."""

    def __init__(self, outer: Listener, sizes: tuple[int, int]) -> None:
        super().__init__(batch=outer.batch)
        self.outer = outer
        self.places = {sizes[0]: slice(0, sizes[0]), sizes[1]: slice(sizes[0], sum(sizes))}
        self.tokens = sum(sizes)
        self._first: AttentionCall | None = None

    def values(self, values: Tensor) -> Tensor:
        """Return the edited values of both streams, at the place of this stream."""
        place = self.places.get(int(values.shape[2]))
        if self.outer.edit_values is None or place is None:
            return self.outer.values(values)
        whole = values.new_zeros(*values.shape[:2], self.tokens, values.shape[3])
        whole[:, :, place] = values
        return self.outer.values(whole)[:, :, place]

    def captured(self, call: AttentionCall) -> None:
        """Pass on a pair after its second call, and other calls unchanged."""
        if self._first is None and self._is_piece(call):
            self._first = call
            return
        pending = [call] if self._first is None else [self._first, call]
        self._first = None
        whole = self._whole(pending)
        for captured in pending if whole is None else [whole]:
            self.outer.captured(captured)

    def _is_piece(self, call: AttentionCall) -> bool:
        known = len(self.places) == 2 and call.weights.dim() == 4
        return known and all(size in self.places for size in call.weights.shape[2:])

    def _whole(self, calls: Sequence[AttentionCall]) -> AttentionCall | None:
        """Return both blocks in one map, if each stream is a target once and a source once."""
        if len(calls) < 2 or not all(map(self._is_piece, calls)):
            return None
        targets, sources = ({int(call.weights.shape[axis]) for call in calls} for axis in (2, 3))
        heads = {call.values.shape[1::2] for call in calls}
        if len(targets) < 2 or len(sources) < 2 or len(heads) > 1:
            return None
        both = (*calls[0].weights.shape[:2], self.tokens, self.tokens)
        weights = calls[0].weights.new_zeros(both)
        seen = weights.new_zeros(both, dtype=torch.bool)
        values = _room(calls[0].values, 2, self.tokens)
        output = _room(calls[0].output, 1, self.tokens)
        for call in calls:
            target, source = (self.places[int(size)] for size in call.weights.shape[2:])
            weights[:, :, target, source] = call.weights
            seen[:, :, target, source] = True if call.seen is None else call.seen
            values[:, :, source] = call.values
            output[:, target] = call.output
        across = calls[0].weights.shape[2] != calls[0].weights.shape[3]
        visibility = Visibility(seen=seen)
        return AttentionCall(
            weights, values, output, calls[0].backend, visibility=visibility, across=across
        )


def _room(like: Tensor, axis: int, size: int) -> Tensor:
    return like.new_zeros([size if n == axis else count for n, count in enumerate(like.shape)])


def paired(calls: Sequence[AttentionCall], sizes: tuple[int, int]) -> list[AttentionCall]:
    """Return the attention of a layer from the calls of both streams."""
    captured: list[AttentionCall] = []
    listener = PairedAttention(Listener(on_call=captured.append), sizes)
    for call in calls:
        listener.captured(call)
    return captured
