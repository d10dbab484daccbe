"""Translate a mask, as the loaded attention implementation reads it, into numbers that eager code
adds.

Eager code adds its mask. Torch's fused attention reads a boolean mask as visibility, returns zeros
for a target that sees nothing, and without a mask hides later tokens if the module is causal.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from mixlens.capture.attention_call import Listener
from mixlens.kernels.visibility import Visibility


@dataclass(frozen=True)
class Mask:
    """A mask as eager code adds it, and the pairs that it hides."""

    added: Any
    visibility: Visibility | None  # None if unknown
    blank: Bool[Tensor, "texts heads target 1"] | None = None  # targets whose output is zero


Interpret = Callable[[Any, Tensor, Tensor, bool], Mask]
"""Takes a mask, the query, the key and whether the module is causal."""


def interpreted(
    interpret: Interpret,
    mask: Any,
    query: Tensor,
    key: Tensor,
    is_causal: bool,
    listener: Listener | None,
) -> Mask:
    """Return the meaning of a mask, computed once for all layers that share it."""
    if listener is None:
        return interpret(mask, query, key, is_causal)
    sizes = query.shape[2], key.shape[2]
    known: Hashable = (id(mask), is_causal, sizes, query.dtype, query.device)
    if known not in listener.masks:  # the mask is kept, so that its id stays unique
        listener.masks[known] = mask, interpret(mask, query, key, is_causal)
    made: Mask = listener.masks[known][1]
    return made


def as_given(mask: Any, query: Tensor, key: Tensor, is_causal: bool) -> Mask:
    """Return the mask as eager code reads it: a boolean mask is added as 0 and 1."""
    if isinstance(mask, Tensor) and mask.dtype == torch.bool:
        mask = mask.to(query.dtype)
    added = additive_mask(mask, query)
    return Mask(added, _visibility(added, key))


def as_seen(mask: Any, query: Tensor, key: Tensor, is_causal: bool) -> Mask:
    """Return the mask as its author meant it: a boolean mask is visibility."""
    added = additive_mask(mask, query)
    return Mask(added, _visibility(added, key))


def as_fused(mask: Any, query: Tensor, key: Tensor, is_causal: bool) -> Mask:
    """Return the mask as torch's fused attention reads it."""
    triangle = mask is None and is_causal and query.shape[2] > 1
    if triangle:
        shape = (1, 1, query.shape[2], key.shape[2])
        mask = torch.ones(shape, dtype=torch.bool, device=query.device).tril()
    if not isinstance(mask, Tensor):
        return Mask(mask, _visibility(mask, key))
    if mask.dtype == torch.bool:
        visibility = Visibility(seen=mask[..., : key.shape[2]], triangle=triangle)
    elif mask.is_floating_point():
        visibility = Visibility(mask[..., : key.shape[2]])
    else:  # the model's own attention raises this too
        raise TypeError(
            f"attention_mask has dtype {mask.dtype}. Pass booleans or floats, as torch requires."
        )
    return Mask(additive_mask(mask, query), visibility, visibility.blank)


def _visibility(added: Any, key: Tensor) -> Visibility | None:
    if added is None:
        return Visibility()
    return Visibility(added[..., : key.shape[2]]) if isinstance(added, Tensor) else None


def additive_mask(mask: Any, like: Tensor) -> Any:
    """Return a mask for eager code, which would add a boolean one (True = attend) as 0 and 1. The
    lowest number of float64 becomes minus infinity in a softmax of float32, which is NaN for a
    padding token that sees nothing. The lowest number of float32 hides masked tokens just as well.
    """
    if not isinstance(mask, Tensor):
        return mask
    lowest = max(torch.finfo(kind).min for kind in (like.dtype, torch.float32))
    if mask.dtype == torch.bool:
        zero = torch.zeros(mask.shape, dtype=like.dtype, device=like.device)
        return zero.masked_fill(~mask, lowest)
    return mask.clamp_min(lowest) if mask.dtype == torch.float64 else mask
