"""Norms of sums over heads without the sums: ||sum_h a_h f_h||^2 = a^T G a, G the head x head Gram
matrix of one source's vectors.

Work per pair: head^2 instead of head * d_model, and memory for `source` matrices of head x head.
The form is evaluated in float64 also for float32 vectors: where heads cancel, a square in float32
keeps only half of the digits of its root.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.kernels.chunks import HALF_CACHED, slices, wide
from mixlens.kernels.decomposition import Decomposition


def summed_norms(
    weights: Float[Tensor, "batch head target source"],
    vectors: Float[Tensor, "batch head source d_model"],
    limit: int,
) -> Float[Tensor, "batch target source"]:
    """||sum_h weights_hij vectors_hj||, a few sources at a time: `limit` bounds the bytes of a
    temporary.

    The wide copies of all pieces share their memory: asking for new pages takes as long as filling
    them.
    """
    batch, heads, targets, sources = weights.shape
    limit = min(limit, HALF_CACHED) if weights.device.type == "cpu" else limit
    parts = list(
        slices(sources, 8 * batch * heads * max(3 * targets, vectors.shape[-1] + heads), limit)
    )
    norms = weights.new_empty(batch, targets, sources)
    dtype, most = (
        wide(vectors[..., :0]).dtype,
        max((part.stop - part.start for part in parts), default=0),
    )
    room_for_vectors = vectors.new_empty(batch, most, heads, vectors.shape[-1], dtype=dtype)
    room_for_weights = weights.new_empty(batch, most, targets, heads, dtype=dtype)
    for part in parts:
        count = part.stop - part.start
        at_source = room_for_vectors[:, :count].copy_(vectors[:, :, part].transpose(1, 2))
        by_source = room_for_weights[:, :count].copy_(weights[..., part].permute(0, 3, 2, 1))
        squares = (by_source @ (at_source @ at_source.mT)).mul_(by_source).sum(-1)
        norms[..., part] = (
            squares.clamp_min_(0).sqrt_().mT.to(norms.dtype)
        )  # rounding may leave a tiny negative square
    return norms


def part_norms(parts: Decomposition, limit: int) -> Float[Tensor, "batch target source"]:
    """||T_ij||. The diagonal is added up explicitly, the rest follows from Gram matrices."""
    norms = summed_norms(parts.weights, parts.vectors, limit) * parts.scale.abs()[..., None]
    if not parts.own_is_source:
        return norms
    return parts.with_diagonal(norms, torch.linalg.vector_norm(parts.diagonal, dim=-1))
