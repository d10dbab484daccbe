"""Multiply half-precision tensors and sum the products in float32.

On a GPU, tensor cores compute such products without a copy of the factors in float32. Elsewhere,
and if PyTorch has no such products (before 2.8), the factors are converted to float32.
"""

from __future__ import annotations

import functools

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.model.placement import raise_if_out_of_memory

_HALF = (torch.float16, torch.bfloat16)


def multiply(
    rows: Float[Tensor, "group row inner"],
    columns: Float[Tensor, "group inner column"],
    scale: float = 1.0,
) -> Float[Tensor, "group row column"]:
    """Return the scaled matrix products in float32, or in float64 if `rows` are in float64."""
    wide = torch.float64 if rows.dtype == torch.float64 else torch.float32
    if rows.dtype == columns.dtype and _on_tensor_cores(columns):
        return _sum_in_float32(rows, columns, scale)
    rows = rows.to(wide)
    return torch.bmm(rows if scale == 1.0 else rows * scale, columns.to(wide))


def multiply_wide(
    rows: Float[Tensor, "group row inner"],
    columns: Float[Tensor, "group inner column"],
    bias: Float[Tensor, " column"] | None = None,
) -> Float[Tensor, "group row column"]:
    """Return the matrix products of `rows` in float32 with `columns`, which may be in half
    precision, plus a bias.

    On tensor cores, each number of `rows` is the sum of two numbers in bfloat16. The range of
    float16 is too small for that.
    """
    if columns.dtype != torch.bfloat16 or not _on_tensor_cores(columns):
        if bias is None:
            return multiply(rows, columns)
        return torch.baddbmm(bias.to(rows), rows, columns.to(rows))
    leading = rows.to(columns.dtype)
    rest = torch.sub(rows, leading, out=torch.empty_like(leading))
    products = multiply(leading, columns) + multiply(rest, columns)
    return products if bias is None else products + bias


def _on_tensor_cores(factor: Tensor) -> bool:
    is_half = factor.device.type == "cuda" and factor.dtype in _HALF
    return is_half and _can_sum_in_float32(factor.device, factor.dtype)


@functools.cache
def _can_sum_in_float32(device: torch.device, dtype: torch.dtype) -> bool:
    """Return whether this version of PyTorch computes such products, by computing one."""
    ones = torch.ones(1, 16, 16, device=device, dtype=dtype)
    try:
        return bool((_sum_in_float32(ones, ones, 0.5) == 8).all())
    except Exception as error:
        raise_if_out_of_memory(error)
        return False


def _sum_in_float32(
    rows: Float[Tensor, "group row inner"],
    columns: Float[Tensor, "group inner column"],
    scale: float,
) -> Float[Tensor, "group row column"]:
    sizes = len(rows), rows.shape[1], columns.shape[2]
    products = torch.empty(sizes, device=rows.device, dtype=torch.float32)
    # As input and output at once: a separate input would be copied, even with beta=0.
    return torch.baddbmm(
        products, rows, columns, out_dtype=torch.float32, beta=0, alpha=scale, out=products
    )
