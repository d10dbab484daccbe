"""Combine the attention calls of a layer into one map, for packed sequences and paired streams.

If sequences are packed along one axis, a layer makes one attention call per image or window, or a
single call with a block mask.

The calls come in the order of the tokens. Each call therefore becomes a block of the full map, and
pairs of tokens from different calls have no weight. The full map is verified like any other
attention: for every token, A V must be the input of the output projection.

If a layer has two streams (words and image regions in LXMERT), it makes one call for each stream.
mixlens concatenates both streams into one sequence. Two consecutive calls, one from each stream,
become two blocks of one map: on the diagonal if each stream attends to itself, off the diagonal if
each attends to the other. mixlens tells the streams apart by their numbers of tokens, which must
therefore differ.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mixlens.capture.attention_call import AttentionCall, Listener, Visibility


class PackedAttention(Listener):
    """Listener that combines the attention calls of a packed batch into one call."""

    def __init__(self, outer: Listener, texts: int, tokens: int) -> None:
        super().__init__()
        self.outer = outer
        self.rows = texts
        self.tokens = tokens
        self._calls: list[AttentionCall] = []
        self._start = 0

    def values(self, values: Tensor) -> Tensor:
        """Return the edited values of one call.

        The edit function receives values for all tokens, with zeros for the tokens of other calls.
        """
        if self.outer.edit_values is None:
            return values
        before = values.new_zeros(*values.shape[:2], self._start, values.shape[3])
        missing = self.rows * self.tokens - self._start - values.shape[2]
        after = values.new_zeros(*values.shape[:2], missing, values.shape[3])
        whole = _by_row(torch.cat([before, values, after], 2), self.rows, 2)
        edited = self.outer.values(whole).transpose(0, 1).flatten(1, 2)
        return edited[None, :, self._start : self._start + values.shape[2]]

    def capture(self, call: AttentionCall) -> None:
        """Collect a call. After the last one, pass the combined call to the outer listener."""
        self._calls.append(call)
        self._start += int(call.weights.shape[2])
        if self._start == self.rows * self.tokens:
            self.outer.capture(_whole(self._calls, self.rows, self.tokens))
            self._calls, self._start = [], 0


def combine_packed_calls(
    calls: Sequence[AttentionCall], texts: int, tokens: int
) -> list[AttentionCall]:
    """Return the attention calls of a layer, with the calls of a packed batch combined."""
    captured: list[AttentionCall] = []
    packed = PackedAttention(Listener(on_call=captured.append), texts, tokens)
    for call in calls:
        packed.capture(call)
    return captured


def _by_row(tensor: Tensor, texts: int, axis: int) -> Tensor:
    """Reshape [1, ..., batch * tokens, ...] to [batch, ..., tokens, ...]."""
    return torch.cat(tensor.chunk(texts, axis))


def _whole(calls: Sequence[AttentionCall], texts: int, tokens: int) -> AttentionCall:
    first = calls[0]
    heads = int(first.weights.shape[1])
    weights = first.weights.new_zeros(texts, heads, tokens, tokens)
    seen_of_calls = [call.visible for call in calls]
    seen_heads = max(1 if piece is None else piece.shape[1] for piece in seen_of_calls)
    visible = weights.new_zeros(texts, seen_heads, tokens, tokens, dtype=torch.bool)
    start = 0
    for call, piece in zip(calls, seen_of_calls, strict=True):
        count = int(call.weights.shape[2])
        if call.weights.shape != (1, heads, count, count):
            return first  # not a piece of this sequence; rejected for its shape
        for text in range(start // tokens, -(-(start + count) // tokens)):
            columns = slice(max(0, text * tokens - start), min(count, (text + 1) * tokens - start))
            place = slice(
                start + columns.start - text * tokens, start + columns.stop - text * tokens
            )
            weights[text, :, place, place] = call.weights[0, :, columns, columns]
            visible[text, :, place, place] = (
                True if piece is None else piece[0, :, columns, columns]
            )
        start += count
    return AttentionCall(
        weights,
        _by_row(torch.cat([call.values for call in calls], 2), texts, 2),
        _by_row(torch.cat([call.output for call in calls], 1), texts, 1),
        first.backend,
        visibility=Visibility(visible=visible),
    )


class PairedAttention(Listener):
    """Listener that combines the attention calls of two streams in pairs."""

    def __init__(self, outer: Listener, sizes: tuple[int, int]) -> None:
        super().__init__(batch=outer.batch)
        self.outer = outer
        self.places = {sizes[0]: slice(0, sizes[0]), sizes[1]: slice(sizes[0], sum(sizes))}
        self.tokens = sum(sizes)
        self._first: AttentionCall | None = None

    def values(self, values: Tensor) -> Tensor:
        """Return the edited values of one stream.

        The edit function receives values for both streams, with zeros for the other stream.
        """
        place = self.places.get(int(values.shape[2]))
        if self.outer.edit_values is None or place is None:
            return self.outer.values(values)
        whole = values.new_zeros(*values.shape[:2], self.tokens, values.shape[3])
        whole[:, :, place] = values
        return self.outer.values(whole)[:, :, place]

    def capture(self, call: AttentionCall) -> None:
        """Combine two consecutive calls into one and pass it to the outer listener.

        Calls that do not form a pair are passed to the outer listener unchanged.
        """
        if self._first is None and self._is_piece(call):
            self._first = call
            return
        pending = [call] if self._first is None else [self._first, call]
        self._first = None
        whole = self._whole(pending)
        for captured in pending if whole is None else [whole]:
            self.outer.capture(captured)

    def _is_piece(self, call: AttentionCall) -> bool:
        is_block = len(self.places) == 2 and call.weights.dim() == 4
        return is_block and all(size in self.places for size in call.weights.shape[2:])

    def _whole(self, calls: Sequence[AttentionCall]) -> AttentionCall | None:
        """Return one call that contains the blocks of both calls.

        Return None unless each stream is the target of one call and the source of one call.
        """
        if len(calls) < 2 or not all(map(self._is_piece, calls)):
            return None
        targets, sources = ({int(call.weights.shape[axis]) for call in calls} for axis in (2, 3))
        heads = {call.values.shape[1::2] for call in calls}
        if len(targets) < 2 or len(sources) < 2 or len(heads) > 1:
            return None
        both = (*calls[0].weights.shape[:2], self.tokens, self.tokens)
        weights = calls[0].weights.new_zeros(both)
        visible = weights.new_zeros(both, dtype=torch.bool)
        values = _room(calls[0].values, 2, self.tokens)
        output = _room(calls[0].output, 1, self.tokens)
        for call in calls:
            target, source = (self.places[int(size)] for size in call.weights.shape[2:])
            weights[:, :, target, source] = call.weights
            visible[:, :, target, source] = True if call.visible is None else call.visible
            values[:, :, source] = call.values
            output[:, target] = call.output
        across = calls[0].weights.shape[2] != calls[0].weights.shape[3]
        visibility = Visibility(visible=visible)
        return AttentionCall(
            weights, values, output, calls[0].backend, visibility=visibility, across=across
        )


def _room(like: Tensor, axis: int, size: int) -> Tensor:
    return like.new_zeros([size if n == axis else count for n, count in enumerate(like.shape)])


def combine_paired_calls(
    calls: Sequence[AttentionCall], sizes: tuple[int, int]
) -> list[AttentionCall]:
    """Return the attention calls of a layer, with the two calls of each pair combined into one."""
    captured: list[AttentionCall] = []
    listener = PairedAttention(Listener(on_call=captured.append), sizes)
    for call in calls:
        listener.capture(call)
    return captured
