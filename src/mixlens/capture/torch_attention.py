"""Split torch's own multi-head attention (`F.multi_head_attention_forward`, which
`nn.MultiheadAttention` calls): WavLM, and image towers after the first CLIP.

Torch uses the weights of the output projection without calling its module. Here that module is
called, so that the projection can be captured and edited like any other.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from mixlens.capture.attention_call import AttentionCall, Listener
from mixlens.kernels.visibility import Visibility

_SIGNATURE = inspect.signature(functional.multi_head_attention_forward)
_BEYOND = ("bias_k", "bias_v", "add_zero_attn", "static_k", "static_v")  # sources without a token


def taken_apart(listener: Listener, owners: dict[int, nn.Linear], *args: Any, **kwargs: Any) -> Any:
    """Return the attention's output and weights, and capture the call. `owners` are linear modules
    by the identity of their weight.
    """
    bound = _SIGNATURE.bind(*args, **kwargs)
    bound.apply_defaults()
    given = bound.arguments
    owner = owners.get(id(given["out_proj_weight"]))
    extended = any(given[name] is not None and given[name] is not False for name in _BEYOND)
    if owner is None or extended or given["query"].dim() != 3:
        return functional.multi_head_attention_forward(*args, **kwargs)
    query, key, value = (tensor.transpose(0, 1) for tensor in _projected(given))
    heads = given["num_heads"]
    query, key, value = (
        tensor.reshape(*tensor.shape[:2], heads, -1).transpose(1, 2)
        for tensor in (query, key, value)
    )
    value = listener.values(value)
    mask = _mask(given, query, key)
    scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5 + mask
    weights = torch.softmax(scores, -1)
    output = (weights @ value).transpose(1, 2)
    visibility = Visibility(mask if mask.dim() else None)
    listener.captured(AttentionCall(weights, value, output, "trace", visibility=visibility))
    projected = owner(output.flatten(2)).transpose(0, 1)
    if not given["need_weights"]:
        return projected, None
    return projected, weights.mean(1) if given["average_attn_weights"] else weights


def _projected(given: dict[str, Any]) -> list[Tensor]:
    """Return queries, keys and values, [tokens, batch, channel]."""
    if given["use_separate_proj_weight"]:
        maps = [given[f"{name}_proj_weight"] for name in "qkv"]
    else:
        maps = list(given["in_proj_weight"].chunk(3))
    bias = given["in_proj_bias"]
    shifts = (None,) * 3 if bias is None else bias.chunk(3)
    tensors = (given["query"], given["key"], given["value"])
    return [functional.linear(*part) for part in zip(tensors, maps, shifts, strict=True)]


def _mask(given: dict[str, Any], query: Tensor, key: Tensor) -> Tensor:
    """Return the mask to add to the scores."""
    shape = (*query.shape[:3], key.shape[2])
    total = query.new_zeros(())
    mask, padding = given["attn_mask"], given["key_padding_mask"]
    if mask is not None:
        mask = _additive(mask, query)
        total = mask.view(shape) if mask.dim() == 3 and len(mask) > 1 else mask
    if padding is not None:
        total = total + _additive(padding, query)[:, None, None]
    return total


def _additive(mask: Tensor, like: Tensor) -> Tensor:
    """Return a boolean mask (True: hidden) as numbers to add."""
    if mask.dtype != torch.bool:
        return mask.to(like.dtype)
    return torch.zeros_like(mask, dtype=like.dtype).masked_fill(mask, float("-inf"))
