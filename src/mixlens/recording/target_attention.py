"""Compute the attention weights of a few targets from queries and keys.

The model runs its fast attention (sdpa, flash), which returns no weights. mixlens recomputes the
weights of the targets as A_i = softmax(scale q_i K^T + bias + mask), with soft-caps and attention
sinks if the model uses them. Nothing of size n x n is computed. To verify the weights, mixlens
multiplies them with the values and compares the result with the output of the native function for
these targets. If the attention of a model does not follow this equation, the check fails, and
mixlens records all targets instead.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mixlens.capture.attention_call import AttentionCall, Visibility
from mixlens.capture.layer_calls import LayerCall, with_hidden_argument
from mixlens.capture.native_attention import NativeCall
from mixlens.contracts import Targets
from mixlens.errors import TargetsUnavailable
from mixlens.kernels.half_products import multiply, multiply_wide

_SOURCES = 16_384  # number of keys and values upcast at a time


class _Places:
    """Positions along one axis of a tensor, for each text of a batch."""

    def __init__(
        self, places: Int[Tensor, "batch target"], numbers: Sequence[Sequence[int]]
    ) -> None:
        """Store the positions. `numbers` contains the same positions as Python integers, so that
        they need not be read from a GPU.
        """
        self._places = places
        self._range = _range(numbers)
        self._end = 1 + max(map(max, numbers))
        self._by_device: dict[torch.device, Tensor] = {}

    def of(self, tensor: Tensor, dim: int, *, copied: bool) -> Tensor:
        """Return the entries of a tensor [batch or 1, ...] at these positions along one axis."""
        if self._end > tensor.shape[dim]:
            raise TargetsUnavailable(
                f"a layer has {tensor.shape[dim]} positions, but the last target is at position "
                f"{self._end - 1}"
            )
        if self._range is not None:  # the fastest way, and the usual one
            part = tensor.narrow(dim, *self._range)
            return part.clone(memory_format=torch.contiguous_format) if copied else part
        places = self._on(tensor.device)
        if places.dim() == 1:
            return tensor.index_select(dim, places)
        batch, count = places.shape
        tensor = tensor.expand(batch, *tensor.shape[1:])
        shape, sizes = [1] * tensor.dim(), list(tensor.shape)
        shape[0], shape[dim], sizes[dim] = batch, count, count
        return tensor.gather(dim, places.reshape(shape).expand(sizes))

    def _on(self, device: torch.device) -> Int[Tensor, "batch target"] | Int[Tensor, " target"]:
        """Return the positions on one device, and cache them, because layers may be on several
        devices.

        For a single text the batch axis is dropped.
        """
        if device not in self._by_device:
            on_device = self._places.to(device)
            self._by_device[device] = on_device[0] if len(on_device) == 1 else on_device
        return self._by_device[device]


class TargetCut:
    """Restrict the tensors of a forward pass to some targets."""

    def __init__(self, targets: Targets, outer: TargetCut | None = None) -> None:
        """Create the cut.

        If some tensors were already restricted by another cut, pass that cut as `outer`. Its
        targets must include `targets`.
        """
        assert targets.positions is not None
        assert targets.cut_at is not None
        self.targets, self.positions, self.places = targets, targets.positions, targets.cut_at
        self._places = _Places(self.places, self.positions)
        self._last: tuple[Tensor, int, Tensor] | None = None
        self._held_count = None if outer is None else outer.places.shape[1]
        self._among_held = self._places if outer is None else _among(self.positions, outer)

    def call(self, call: NativeCall) -> NativeCall:
        """Return a copy of an attention call with the queries and outputs of the targets only."""
        return replace(
            call,
            query=self.of(call.query, 2),
            output=self.of(call.output, 1),
            queries=call.query.shape[2] if call.queries is None else call.queries,
        )

    def of(self, tensor: Tensor, dim: int, *, copied: bool = True) -> Tensor:
        """Select the targets along one axis of a tensor [batch or 1, ...].

        With `copied=False` the result may be a view, which keeps the whole tensor in memory.
        """
        dim = dim % tensor.dim()
        if tensor.shape[dim] == 1:  # the same for every target, or the only one, named twice
            sizes = [-1] * tensor.dim()
            sizes[dim] = self.places.shape[1]
            return tensor.expand(sizes)
        is_held = tensor.shape[dim] == self._held_count
        return (self._among_held if is_held else self._places).of(tensor, dim, copied=copied)

    def of_stream(self, tensor: Tensor) -> Tensor:
        """Select the targets from hidden states.

        The last result is cached, because a layer's input is usually the output of the previous
        layer.
        """
        last = self._last
        if last is None or last[0] is not tensor or last[1] != tensor._version:
            rows = self.of(tensor, 1)
            last = self._last = (tensor, tensor._version, rows)
        return last[2]

    def of_captured(self, tensor: Tensor) -> Tensor:
        """Select the targets from a tensor that was captured at a submodule.

        If the layer flattens the batch and token axes, they are unflattened first.
        """
        if tensor.dim() == 2:
            tensor = tensor.reshape(len(self.places), -1, tensor.shape[-1])
        return self.of(tensor, 1)

    def of_layer(self, call: LayerCall) -> LayerCall:
        """Return a layer call whose input and output contain only the targets."""
        hidden, output = call.hidden_in, call.hidden_out
        if hidden.dim() != 3 or output.dim() != 3:
            raise TargetsUnavailable(
                f"layer `{call.path}` takes hidden states of shape {tuple(hidden.shape)}, not "
                "[batch, tokens, d_model]"
            )
        args, kwargs = with_hidden_argument(call.args, call.kwargs, self.of_stream(hidden))
        return LayerCall(call.path, call.module, args, kwargs, output=self.of_stream(output))


def _among(positions: Sequence[Sequence[int]], outer: TargetCut) -> _Places:
    """Return the index of each target position within the targets of `outer`."""
    indices = [{place: index for index, place in enumerate(row)} for row in outer.positions]
    numbers = [
        [index[place] for place in row] for index, row in zip(indices, positions, strict=True)
    ]
    return _Places(torch.tensor(numbers, device=outer.places.device), numbers)


def _range(positions: Sequence[Sequence[int]]) -> tuple[int, int] | None:
    """Return (start, count) if the targets of all texts are the same consecutive range."""
    first, count = positions[0][0], len(positions[0])
    in_order = tuple(range(first, first + count))
    return (first, count) if all(tuple(row) == in_order for row in positions) else None


def can_be_cut(captured: NativeCall) -> bool:
    """Return whether an attention call can be restricted to targets.

    The attention function must return a tensor [batch, target, head, d_head] with one vector for
    each query.
    """
    return captured.output.dim() == 4 and captured.output.shape[:2] == captured.query.shape[::2]


_Hidden = tuple[Float[Tensor, "batch heads_or_one target last"] | None, Visibility]


class TargetAttention:
    """Compute the attention weights of the targets, for the attention calls of one forward pass."""

    def __init__(self, cut: TargetCut) -> None:
        self._cut = cut
        self._hidden: dict[tuple[object, ...], tuple[Any, _Hidden]] = {}

    def call(self, captured: NativeCall) -> AttentionCall:
        """Return the attention call restricted to the targets, with recomputed weights."""
        query, key, value = captured.query, captured.key, captured.value
        output, options = captured.output, captured.options
        cut, scale = self._cut, options.get("scaling")
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        rows = cut.of(query, 2, copied=False)
        hidden, visibility = self._hides(captured, rows)
        cap, bias = options.get("softcap"), options.get("position_bias")
        scores = _scores(rows, key, scale)
        if cap is not None:
            scores = torch.tanh(scores / cap) * cap
        if isinstance(bias, Tensor):
            scores = scores + cut.of(bias, -2)
        if hidden is not None:
            scores[..., scores.shape[-1] - hidden.shape[-1] :] += hidden
        weights = _softmax(scores, options.get("s_aux"))
        targets_output, product = cut.of(output, 1), _product(weights, value)
        return AttentionCall(weights, value, targets_output, "rows", product, visibility)

    def _hides(
        self,
        captured: NativeCall,
        rows: Float[Tensor, "batch head target d_head"],
    ) -> _Hidden:
        """Return the additive mask of the last sources, and the sources that each target can see
        (`Visibility`).

        The result is cached, so it is computed only once for all layers with the same mask.
        """
        mask, options, key_shape = captured.mask, captured.options, captured.key.shape
        causal = options.get("is_causal")
        causal = bool(getattr(captured.module, "is_causal", True) if causal is None else causal)
        queries = captured.query.shape[2] if captured.queries is None else captured.queries
        causal = causal and queries > 1 and _may_be_causal(captured)
        window = options.get("sliding_window")
        key = (id(mask), causal, window, rows.shape, key_shape, rows.device)
        if key not in self._hidden:  # the mask is kept, so that its id stays unique
            (batch, _, count, _), sources = rows.shape, key_shape[2]
            hidden = _hidden(
                captured, self._cut, rows.new_empty(0, dtype=_wide(rows)), sources, causal, window
            )
            visibility = Visibility()
            if hidden is not None:
                hidden = hidden.expand(batch, -1, count, sources)
                ends = self._ends(batch, sources) if causal else None
                visibility = Visibility(hidden, ends=ends)
                if causal and mask is None and window is None:  # earlier sources are all visible
                    hidden = hidden[..., min(map(min, self._cut.positions)) :]
            self._hidden[key] = (mask, (hidden, visibility))
        return self._hidden[key][1]

    def _ends(self, batch: int, sources: int) -> list[int]:
        """Return the number of sources that the last target of each text can attend to under a
        causal mask. The mask itself is not read.
        """
        ends = [min(sources, max(row) + 1) for row in self._cut.positions]
        return ends * (batch // len(ends))  # layers that are texts of one batch have the same


def _scores(
    rows: Tensor, key: Tensor, scale: float | Tensor
) -> Float[Tensor, "batch head target source"]:
    """Return the scaled products of queries and keys, for every query head.

    Grouped keys are not repeated for each head.
    """
    if isinstance(scale, Tensor):
        rows, scale = rows.to(_wide(rows)) * scale, 1.0
    batch, heads, count, width = rows.shape
    grouped = rows.reshape(batch * key.shape[1], -1, width)
    keys = _pieces(key.flatten(0, 1), 1)
    parts = [multiply(grouped, part.mT, scale) for part in keys]
    return (parts[0] if len(parts) == 1 else torch.cat(parts, -1)).view(batch, heads, count, -1)


def _product(weights: Tensor, value: Tensor) -> Float[Tensor, "batch target head d_value"]:
    batch, heads, count, sources = weights.shape
    grouped, values = weights.reshape(batch * value.shape[1], -1, sources), value.flatten(0, 1)
    products = (
        multiply_wide(part, rows)
        for part, rows in zip(_pieces(grouped, 2), _pieces(values, 1), strict=True)
    )
    return functools.reduce(torch.add, products).view(batch, heads, count, -1).transpose(1, 2)


def _wide(tensor: Tensor) -> torch.dtype:
    """Return the dtype of the attention scores."""
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32


def _pieces(tensor: Tensor, dim: int) -> Sequence[Tensor]:
    """Split a tensor along its source axis, so that the upcast copy of each piece is small."""
    return (tensor,) if tensor.shape[dim] <= _SOURCES else torch.split(tensor, _SOURCES, dim)


def _may_be_causal(captured: NativeCall) -> bool:
    """Return whether the attention function uses the module's `is_causal` attribute.

    It uses the attribute only if there is no mask of token pairs, and never in eager attention.
    """
    mask = captured.mask
    return not captured.is_eager and (
        mask is None or (isinstance(mask, Tensor) and mask.dim() == 2)
    )


def _hidden(
    captured: NativeCall,
    cut: TargetCut,
    like: Tensor,
    sources: int,
    causal: bool,
    window: int | None,
) -> Tensor | None:
    """Return the additive attention mask for the targets, or None if every source is visible."""
    mask = captured.mask
    if not (mask is None or isinstance(mask, Tensor)):  # flex attention
        raise TargetsUnavailable(f"its mask is a {type(mask).__name__}, not a tensor")
    targets = cut.places.to(like.device)
    if isinstance(mask, Tensor) and mask.dim() == 2:  # flash attention uses only the padding
        visible = mask.bool()[:, None, None, :]
    elif isinstance(mask, Tensor):
        rows = cut.of(mask, -2)[..., :sources]
        if rows.dtype != torch.bool or captured.is_eager:
            return rows.to(like)
        visible = rows
    else:
        visible = None
    if causal:
        places = torch.arange(sources, device=like.device)
        before = (places <= targets[..., None])[:, None]
        if window is not None:
            before = before & (places > targets[..., None] - window)[:, None]
        visible = before if visible is None else visible & before
    if visible is None:
        return None
    return like.new_zeros(()).masked_fill(~visible, torch.finfo(like.dtype).min)


def _softmax(scores: Tensor, sinks: Any) -> Tensor:
    if not isinstance(sinks, Tensor):
        return torch.softmax(scores, -1)
    column = sinks.to(scores).reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)
    return torch.softmax(torch.cat([scores, column], -1), -1)[..., :-1]
