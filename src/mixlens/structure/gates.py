"""Factors between A V and the output projection: gates (Qwen3-Next, AFMoE) and sinks that scale the
output (Granite).

The input of the projection is g * A V, with factors g of each target, head and channel that do not
depend on the values. They are read from a run in which every value is one, where A V is the sum of
the weights of each target and nothing cancels. The same factors must then reproduce the input of
the projection with the real values.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.capture.attention_call import ValueEdit


def all_ones(position: int) -> ValueEdit:
    """Set every value of one attention call of a layer to one."""
    return lambda number, values: torch.ones_like(values) if number == position else values


def gate_of(
    entered: Tensor, weights: Float[Tensor, "batch head target source"]
) -> Float[Tensor, "batch target head d_head"]:
    """Return the factors, from the input of the projection when every value was one."""
    batch, heads, targets, _ = weights.shape
    sums = weights.sum(-1).transpose(1, 2)[..., None]
    entered = entered.reshape(batch, targets, heads, -1)
    return entered / torch.where(sums == 0, 1.0, sums)
