"""Multiply half-precision tensors and sum the products in float32.

On a GPU, tensor cores compute such products without a copy of the factors in float32. Elsewhere,
and before PyTorch 2.8, the factors are converted to float32.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

_HALF = (torch.float16, torch.bfloat16)
_HAS_WIDE_RESULTS = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 8)


def multiply(
    rows: Float[Tensor, "group row inner"],
    columns: Float[Tensor, "group inner column"],
    scale: float = 1.0,
) -> Float[Tensor, "group row column"]:
    """Return the scaled matrix products in float32, or in float64 if `rows` are in float64."""
    wide = torch.float64 if rows.dtype == torch.float64 else torch.float32
    if rows.dtype == columns.dtype and _on_tensor_cores(columns):
        products = rows.new_empty(len(rows), rows.shape[1], columns.shape[2], dtype=wide)
        # As input and output at once: a separate input would be copied, even with beta=0.
        return torch.baddbmm(
            products, rows, columns, out_dtype=wide, beta=0, alpha=scale, out=products
        )
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
    return factor.device.type == "cuda" and factor.dtype in _HALF and _HAS_WIDE_RESULTS
