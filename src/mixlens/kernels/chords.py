"""Split the output of an MLP by source, using the chord of the activation.

An MLP g(z W_1 + b_1) W_2 applies g to each neuron separately. Along the straight path to the
pre-activation p = sum_j p_j + rest, the integrated gradient of g has the same slope for every term:
the slope of the chord. Each term therefore contributes q_j = p_j (g(p) - g(start)) / (p - start).
No numerical integration is needed, and the contributions add up to the total change.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.kernels.chunks import slices
from mixlens.kernels.decomposition import Decomposition


def chord(
    function: Callable[[Tensor], Tensor],
    start: Float[Tensor, "*rows channel"],
    end: Float[Tensor, "*rows channel"],
) -> Float[Tensor, "*rows channel"]:
    """Return the slope of an elementwise function between two points, or its derivative if the
    points coincide.
    """
    step = end - start
    with torch.enable_grad():
        middle = ((start + end) / 2).detach().requires_grad_()
        slope: Tensor = torch.autograd.grad(function(middle).sum(), middle)[0]
    near = step.abs() <= torch.finfo(end.dtype).eps ** 0.5 * (start.abs() + end.abs())
    whole = (function(end) - function(start)) / torch.where(near, torch.ones_like(step), step)
    return torch.where(near, slope, whole)


def chord_norms(
    first: Decomposition,
    slope: Float[Tensor, "batch target d_ff"],
    second: Float[Tensor, "d_ff d_model"],
    stream: Decomposition | None,
    limit: int,
) -> Float[Tensor, "batch target source"]:
    """Return ||(slope * p_ij) second + T_ij|| for every target i and source j.

    `first` contains the parts p_ij of the pre-activation. `stream` contains the parts T_ij of the
    residual stream, or is None to leave them out. The function processes a few sources at a time;
    `limit` is the maximum size in bytes of each temporary tensor.
    """
    weights = first.weights
    batch, _, targets, sources = weights.shape
    norms = weights.new_zeros(batch, targets, sources)
    width = first.vectors.width + 2 * int(second.shape[1])
    slopes = slope * first.scale[..., None]
    for part in slices(sources, batch * targets * width * weights.element_size(), limit):
        reached = (weights[..., part] != 0).any(3).any(1).any(0).nonzero()[:, 0]
        if not len(reached):
            continue
        rows = slice(int(reached[0]), int(reached[-1]) + 1)  # causal: later ones
        by_source = weights[:, :, rows, part].permute(0, 3, 2, 1).contiguous()
        contributions = by_source @ first.vectors.of(part).to(weights.dtype).transpose(1, 2)
        contributions = contributions.mul_(slopes[:, None, rows]) @ second
        if stream is not None:
            stream_part = by_source @ stream.vectors.of(part).to(weights.dtype).transpose(1, 2)
            contributions.addcmul_(stream_part, stream.scale[:, None, rows, None])
        norms[:, rows, part] = torch.linalg.vector_norm(contributions, dim=-1).mT
    itself = (slope * first.diagonal) @ second
    itself = itself if stream is None else itself + stream.diagonal
    return first.with_diagonal(norms, torch.linalg.vector_norm(itself, dim=-1))
