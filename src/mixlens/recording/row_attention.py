"""The attention weights of a few targets, from the query and key that attention is given.

The model runs its fast attention (sdpa, flash), which returns no weights. For the wanted targets
they are formed again from the equation, A_i = softmax(scale q_i K^T + bias + mask), with soft-caps
and sinks if the call names them. Nothing of size n x n is made. Whether these rows are right is not
assumed: multiplied with the values they must give what the native function returned for these
targets. A model whose attention is more than this equation fails there, and is recorded whole.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mixlens.recording.listener import AttentionCall

_SOURCES = 16_384  # keys and values are widened so many at a time


def taken(tensor: Tensor, targets: Int[Tensor, "batch target"], dim: int) -> Tensor:
    """The wanted targets of a tensor [batch or 1, ...] along one axis."""
    dim = dim % tensor.dim()
    if tensor.shape[dim] == 1:  # the same for every target
        return tensor
    batch, count = targets.shape
    if batch == 1:
        return tensor.index_select(dim, targets[0])
    tensor = tensor.expand(batch, *tensor.shape[1:])
    shape, sizes = [1] * tensor.dim(), list(tensor.shape)
    shape[0], shape[dim], sizes[dim] = batch, count, count
    return tensor.gather(dim, targets.reshape(shape).expand(sizes))


def can_be_cut(query: Tensor, output: Tensor) -> bool:
    """Did an attention function return [batch, target, head, d_head], one row for each query?"""
    return output.dim() == 4 and output.shape[:2] == query.shape[::2]


class RowAttention:
    """Of one forward pass: the rows of each attention call that has just been run."""

    def __init__(self, targets: Int[Tensor, "batch target"]) -> None:
        self.targets = targets
        self._hidden: dict[tuple[object, ...], tuple[Any, Tensor | None]] = {}

    def call(
        self,
        module: nn.Module,
        query: Float[Tensor, "batch head all_targets d_head"],
        key: Float[Tensor, "batch kv_head source d_head"],
        value: Float[Tensor, "batch kv_head source d_value"],
        mask: Any,
        output: Float[Tensor, "batch all_targets head d_value"],
        options: Mapping[str, Any],
    ) -> AttentionCall:
        """The wanted rows of one call."""
        rows = taken(query, self.targets, 2)
        wide = torch.float64 if query.dtype == torch.float64 else torch.float32
        scale = options.get("scaling")
        rows = rows.to(wide) * (query.shape[-1] ** -0.5 if scale is None else scale)
        scores = _grouped(rows, key, wide)
        cap = options.get("softcap")
        if cap is not None:
            scores = torch.tanh(scores / cap) * cap
        if isinstance(options.get("position_bias"), Tensor):
            scores = scores + taken(options["position_bias"], self.targets, -2)
        hidden = self._hides(module, mask, scores, query.shape[2], options)
        if hidden is not None:
            scores = scores + hidden
        weights = _softmax(scores, options.get("s_aux"))
        rows_of_output = taken(output, self.targets, 1)
        return AttentionCall(weights, value, rows_of_output, "rows", _product(weights, value))

    def _hides(
        self,
        module: nn.Module,
        mask: Any,
        scores: Tensor,
        all_targets: int,
        options: Mapping[str, Any],
    ) -> Tensor | None:
        """`_hidden`, made once for all layers that are given the same mask."""
        causal = options.get("is_causal")
        causal = bool(getattr(module, "is_causal", True) if causal is None else causal)
        window = options.get("sliding_window")
        key = (id(mask), causal and all_targets > 1, window, scores.shape, scores.device)
        if key not in self._hidden:  # the mask is kept with it, so that its id stays its own
            hidden = _hidden(mask, self.targets, scores, causal and all_targets > 1, window)
            self._hidden[key] = (mask, hidden)
        return self._hidden[key][1]


def _grouped(rows: Tensor, key: Tensor, wide: torch.dtype) -> Tensor:
    """q K^T for every query head, grouped keys not repeated."""
    batch, heads, count, width = rows.shape
    grouped = rows.reshape(batch, key.shape[1], -1, width)
    parts = [grouped @ part.to(wide).mT for part in torch.split(key, _SOURCES, 2)]
    scores = parts[0] if len(parts) == 1 else torch.cat(parts, -1)
    return scores.reshape(batch, heads, count, -1)


def _product(weights: Tensor, value: Tensor) -> Tensor:
    batch, heads, count, sources = weights.shape
    grouped = weights.reshape(batch, value.shape[1], -1, sources)
    parts = [slice(start, start + _SOURCES) for start in range(0, sources, _SOURCES)]
    products = (grouped[..., part] @ value[:, :, part].to(weights) for part in parts)
    total = functools.reduce(torch.add, products)
    return total.reshape(batch, heads, count, -1).transpose(1, 2)


def _hidden(
    mask: Any, targets: Tensor, scores: Tensor, causal: bool, window: int | None
) -> Tensor | None:
    """What is added to the scores of sources that a target may not see."""
    sources = scores.shape[-1]
    if isinstance(mask, Tensor) and mask.dim() == 2:  # flash attention takes the padding alone
        seen = mask.bool()[:, None, None, :]
    elif isinstance(mask, Tensor):
        rows = taken(mask, targets, -2)[..., :sources]
        if rows.dtype != torch.bool:
            return rows.to(scores)
        seen = rows
    else:
        seen = None
    if causal and (mask is None or mask.dim() == 2):
        places = torch.arange(sources, device=scores.device)
        before = (places <= targets[..., None])[:, None]
        if window is not None:
            before = before & (places > targets[..., None] - window)[:, None]
        seen = before if seen is None else seen & before
    if seen is None:
        return None
    return torch.zeros_like(scores[:, :1]).masked_fill(~seen, torch.finfo(scores.dtype).min)


def _softmax(scores: Tensor, sinks: Any) -> Tensor:
    if not isinstance(sinks, Tensor):
        return torch.softmax(scores, -1)
    column = sinks.to(scores).reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)
    return torch.softmax(torch.cat([scores, column], -1), -1)[..., :-1]
