"""Fused GPU kernel for the L1 contributions of each head and source to a few targets: sum_k (|y_ik|
- |A_hij f_hjk - y_ik|) with f_hj = values_hj matrix_h, without storing the vectors f in memory.

Each program computes a tile of f (some sources of one head, some channels) in registers and
compares it with every target. The products are therefore computed only once for all targets, in
full float32. The cost of the remaining work grows with the number of targets.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

if TYPE_CHECKING:
    import triton.language as tl

MOST_TARGETS = 16  # more are faster with the sorted channels of the plain form
_CHANNELS = 64  # of one step


def applies(weights: Tensor) -> bool:
    """Return whether the kernel supports these tensors."""
    few = weights.shape[2] <= MOST_TARGETS
    return few and weights.device.type == "cuda" and weights.dtype == torch.float32


def tile(d_head: int, dtype: torch.dtype, targets: int) -> tuple[int, int, int]:
    """Return how many sources and targets each program processes, and the padded size of a head."""
    padded = max(16, 1 << (d_head - 1).bit_length())  # a tensor product needs at least 16
    sources = 128 if dtype.itemsize == 2 and padded <= 128 else 32
    return sources, 1 if targets == 1 else MOST_TARGETS, padded


@functools.cache
def _kernel() -> Any:
    global tl  # Triton before 3.4 looks for names only in the module
    import triton
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator]
    def kernel(  # type: ignore[no-untyped-def]
        weights,
        values,
        matrix,
        y,
        out,
        shift,
        heads,
        shared,
        targets,
        sources,
        value_by_text,
        value_by_head,
        value_by_source,
        matrix_by_head,
        matrix_by_row,
        D_HEAD: tl.constexpr,
        WIDTH: tl.constexpr,
        TILE_S: tl.constexpr,
        TILE_T: tl.constexpr,
        TILE_E: tl.constexpr,
        TILE_D: tl.constexpr,
    ):
        batch, head = tl.program_id(2).to(tl.int64), tl.program_id(1).to(tl.int64)
        source = tl.program_id(0).to(tl.int64) * TILE_S + tl.arange(0, TILE_S)
        source_ok = source < sources
        inner = tl.arange(0, TILE_E)
        inner_ok = inner < D_HEAD
        value = tl.load(
            values
            + batch * value_by_text
            + (head // shared) * value_by_head
            + source[:, None] * value_by_source
            + inner[None, :],
            mask=source_ok[:, None] & inner_ok[None, :],
            other=0.0,
        )
        row = weights + (batch * heads + head) * targets * sources + source
        place = out + (batch * heads + head) * targets * sources + source
        number = tl.arange(0, TILE_T)
        total = tl.zeros((TILE_S, TILE_T), dtype=tl.float32)
        for start in range(0, WIDTH, TILE_D):
            channel = start + tl.arange(0, TILE_D)
            channel_ok = channel < WIDTH
            part = tl.load(
                matrix + head * matrix_by_head + inner[:, None] * matrix_by_row + channel[None, :],
                mask=inner_ok[:, None] & channel_ok[None, :],
                other=0.0,
            )
            contribution = tl.dot(value, part, input_precision="ieee")
            for target in range(0, targets):
                output = tl.load(
                    y + (batch * targets + target) * WIDTH + channel, mask=channel_ok, other=0.0
                )
                attention = tl.load(row + target * sources, mask=source_ok, other=0.0)
                shifted = output - tl.where(channel_ok, shift, 0.0)
                remainder = tl.abs(attention[:, None] * contribution - shifted[None, :])
                scores = tl.sum(tl.abs(output)[None, :] - remainder, axis=1)
                total += tl.where(number[None, :] == target, scores[:, None], 0.0)
        tl.store(
            place[:, None] + number[None, :] * sources,
            total,
            mask=source_ok[:, None] & (number < targets)[None, :],
        )

    return kernel


def head_contributions(
    weights: Float[Tensor, "batch head target source"],
    values: Float[Tensor, "batch kv_head source d_head"],
    matrix: Float[Tensor, "head d_head d_model"],
    y: Float[Tensor, "batch target d_model"],
    shift: float = 0.0,
) -> Float[Tensor, "batch head target source"]:
    """Return ||y_i||_1 - ||weights_hij values_hj matrix_h - y_i + shift||_1 for every head, target
    and source.
    """
    batch, heads, targets, sources = weights.shape
    d_head, width = matrix.shape[1:]
    values = values if values.stride(-1) == 1 else values.contiguous()
    matrix = matrix if matrix.stride(-1) == 1 else matrix.contiguous()
    out = torch.empty_like(weights, memory_format=torch.contiguous_format)
    some_sources, some_targets, padded = tile(d_head, values.dtype, targets)
    _kernel()[(-(-sources // some_sources), heads, batch)](
        weights.contiguous(),
        values,
        matrix,
        y.contiguous(),
        out,
        shift,
        heads,
        heads // values.shape[1],
        targets,
        sources,
        *values.stride()[:3],
        *matrix.stride()[:2],
        D_HEAD=d_head,
        WIDTH=width,
        TILE_S=some_sources,
        TILE_T=some_targets,
        TILE_E=padded,
        TILE_D=_CHANNELS,
        num_warps=8 if some_sources > 32 else 4,
    )
    return out
