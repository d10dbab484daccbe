"""Fused GPU kernels for norms of sums over heads: ||sum_h A_hij vectors_hj||, from Gram matrices
(see `gram`), in float64 and without upcast copies.

The first kernel computes the Gram matrix of each source. The second kernel computes the norms for a
tile of targets and sources: it reads the weights in place and keeps each square in registers only.
Products of half-precision vectors are exact in float32, so the first kernel sums them in float32
over a few channels, and in float64 over all channels.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

if TYPE_CHECKING:
    import triton.language as tl

_TILE = 32  # targets, and sources, of one program
_CHANNELS = 32  # channels that are multiplied together


def applies(weights: Tensor) -> bool:
    """Return whether the kernels support these tensors."""
    return (
        weights.device.type == "cuda"
        and weights.dtype == torch.float32
        and _has_wide_products(weights.device)
    )


@functools.cache
def _has_wide_products(device: torch.device) -> bool:
    """Return whether Triton can compile float64 products for the device.

    This is not possible on AMD GPUs, or on NVIDIA GPUs with compute capability 10 or 11.
    """
    generation = torch.cuda.get_device_capability(device)[0]
    return torch.version.hip is None and generation not in (10, 11)


@functools.cache
def _kernels() -> Any:
    global tl  # Triton before 3.4 looks for names only in the module
    import triton
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator]
    def products(  # type: ignore[no-untyped-def]
        vectors,
        out,
        by_text,
        by_head,
        by_source,
        out_by_text,
        out_by_pair,
        heads: tl.constexpr,
        width: tl.constexpr,
        HALF: tl.constexpr,
        HEADS: tl.constexpr,
        TILE: tl.constexpr,
    ):
        source, batch = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
        head = tl.arange(0, HEADS)
        head_ok = head < heads
        rows = vectors + batch * by_text + source * by_source
        rows += head[:, None].to(tl.int64) * by_head
        gram = tl.zeros((HEADS, HEADS), dtype=tl.float64)
        for start in range(0, width, TILE):
            channel = start + tl.arange(0, TILE)
            inside = head_ok[:, None] & (channel < width)[None, :]
            part = tl.load(rows + channel[None, :], mask=inside, other=0.0)
            if HALF:  # float64 products of these do not compile
                part = part.to(tl.float32)  # exact in TF32, which has as many digits as float16
                gram += tl.dot(part, tl.trans(part), input_precision="tf32").to(tl.float64)
            else:
                part = part.to(tl.float64)
                gram = tl.dot(part, tl.trans(part), gram, out_dtype=tl.float64)
        pair = (head[:, None] * heads + head[None, :]).to(tl.int64)
        place = out + batch * out_by_text + pair * out_by_pair + source
        tl.store(place, gram, mask=head_ok[:, None] & head_ok[None, :])

    @triton.jit  # type: ignore[untyped-decorator]
    def norms(  # type: ignore[no-untyped-def]
        weights,
        gram,
        out,
        targets,
        sources,
        heads: tl.constexpr,
        CAUSAL: tl.constexpr,
        TILE: tl.constexpr,
    ):
        batch = tl.program_id(2).to(tl.int64)
        if CAUSAL and tl.program_id(1) > tl.program_id(0):
            return  # no target of this tile sees these sources
        rows = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
        columns = tl.program_id(1) * TILE + tl.arange(0, TILE)
        column_ok = columns < sources
        inside = (rows < targets)[:, None] & column_ok[None, :]
        place = batch * targets * sources + rows[:, None] * sources + columns[None, :]
        first = weights + batch * (heads - 1) * targets * sources + place
        plane = (batch * 0 + targets) * sources  # in 64 bits
        row = gram + batch * heads * heads * sources + columns
        squares = tl.zeros((TILE, TILE), dtype=tl.float64)
        for one in range(0, heads):
            summed = tl.zeros((TILE, TILE), dtype=tl.float64)
            weight, pair = first, row
            for _ in range(0, one):
                product = tl.load(pair, mask=column_ok, other=0.0)
                summed += tl.load(weight, mask=inside, other=0.0).to(tl.float64) * product[None, :]
                weight += plane
                pair += sources
            product = tl.load(pair, mask=column_ok, other=0.0)
            attention = tl.load(weight, mask=inside, other=0.0).to(tl.float64)
            squares += attention * (2 * summed + attention * product[None, :])
            row += heads * sources
        # Rounding may leave a tiny negative square. NaN stays.
        squares = tl.where(squares < 0.0, 0.0, squares)
        tl.store(out + place, tl.sqrt(squares), mask=inside)

    return products, norms


def fill_products(
    vectors: Float[Tensor, "batch head source d_model"], gram: Float[Tensor, "batch pair source"]
) -> None:
    """Fill `gram` with the dot products of every pair of heads, in row-major order."""
    _, heads, sources, width = vectors.shape
    _kernels()[0][sources, len(vectors)](
        vectors,
        gram,
        *vectors.stride()[:3],
        *gram.stride()[:2],
        heads=heads,
        width=width,
        HALF=vectors.element_size() < 4,
        HEADS=max(16, 1 << (heads - 1).bit_length()),  # the shape that a tensor product needs
        TILE=_CHANNELS,
        num_warps=1 if heads <= 16 else 4,
    )


def norms_from(
    weights: Float[Tensor, "batch head target source"],
    gram: Float[Tensor, "batch pair source"],
    *,
    causal: bool = False,
) -> Float[Tensor, "batch target source"]:
    """Return ||sum_h weights_hij vectors_hj|| for all pairs, computed from Gram matrices.

    With `causal`, only sources that a target attends to are computed; the rest is 0.
    """
    batch, heads, targets, sources = weights.shape
    out = weights.new_zeros(batch, targets, sources)
    grid = (-(-targets // _TILE), -(-sources // _TILE), batch)
    _kernels()[1][grid](
        weights.contiguous(), gram, out, targets, sources, heads, CAUSAL=causal, TILE=_TILE
    )
    return out
