"""Translate a mask, as the loaded attention implementation reads it, into numbers that eager code
adds.

Eager code adds whatever it is given. Torch's fused attention takes a boolean mask as what is seen,
returns zeros for a target that sees nothing, and without a mask hides what is later if the module
says that it is causal.
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
    """A mask as eager code adds it, and what it hides."""

    added: Any
    visibility: Visibility | None  # None: it is not known
    blank: Bool[Tensor, "texts heads target 1"] | None = None  # targets that are given zeros


Interpret = Callable[[Any, Tensor, Tensor, bool], Mask]
"""Gets a mask, the query, the key and whether the module says that it is causal."""


def interpreted(
    interpret: Interpret,
    mask: Any,
    query: Tensor,
    key: Tensor,
    is_causal: bool,
    listener: Listener | None,
) -> Mask:
    """What a mask means; once for all layers that are given the same."""
    if listener is None:
        return interpret(mask, query, key, is_causal)
    sizes = query.shape[2], key.shape[2]
    known: Hashable = (id(mask), is_causal, sizes, query.dtype, query.device)
    if known not in listener.masks:  # the mask is kept with it, so that its id stays its own
        listener.masks[known] = mask, interpret(mask, query, key, is_causal)
    made: Mask = listener.masks[known][1]
    return made


def as_given(mask: Any, query: Tensor, key: Tensor, is_causal: bool) -> Mask:
    """As eager code takes it: a boolean mask is added as 0 and 1."""
    if isinstance(mask, Tensor) and mask.dtype == torch.bool:
        mask = mask.to(query.dtype)
    added = additive_mask(mask, query)
    return Mask(added, _visibility(added, key))


def as_seen(mask: Any, query: Tensor, key: Tensor, is_causal: bool) -> Mask:
    """As its maker meant it: a boolean mask says what is seen."""
    added = additive_mask(mask, query)
    return Mask(added, _visibility(added, key))


def as_fused(mask: Any, query: Tensor, key: Tensor, is_causal: bool) -> Mask:
    """As torch's fused attention takes it."""
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
    else:  # the model's own attention raises this, too
        raise TypeError(f"attention_mask of {mask.dtype}: torch takes booleans and floats")
    return Mask(additive_mask(mask, query), visibility, visibility.blank)


def _visibility(added: Any, key: Tensor) -> Visibility | None:
    if added is None:
        return Visibility()
    return Visibility(added[..., : key.shape[2]]) if isinstance(added, Tensor) else None


def additive_mask(mask: Any, like: Tensor) -> Any:
    """A mask as eager code wants it. A boolean one (True = attend) it would add as 0 and 1. The
    lowest number of float64 becomes minus infinity in a softmax of float32, which is NaN for a
    padding token that sees nothing. That of float32 hides what is masked just as well.
    """
    if not isinstance(mask, Tensor):
        return mask
    lowest = max(torch.finfo(kind).min for kind in (like.dtype, torch.float32))
    if mask.dtype == torch.bool:
        zero = torch.zeros(mask.shape, dtype=like.dtype, device=like.device)
        return zero.masked_fill(~mask, lowest)
    return mask.clamp_min(lowest) if mask.dtype == torch.float64 else mask
