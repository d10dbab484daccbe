"""How far two tensors are from each other, and how far rounding can bring them."""

from __future__ import annotations

import functools

import torch
from jaxtyping import Float
from torch import Tensor

# Largest difference, relative to the largest number, that rounding can explain in each precision.
ROUNDING = {torch.float64: 1e-6, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}


def rounding(like: Tensor, dtype: torch.dtype | None = None) -> float:
    """The bar for a tensor's dtype and device: float32 products set to use TF32 or bf16 have fewer
    digits.
    """
    dtype = like.dtype if dtype is None else dtype
    if dtype == torch.float32:
        setting = torch.get_float32_matmul_precision()
        if setting != "highest" and like.device.type == "cuda":  # torch takes TF32 for both there
            dtype = torch.float16
        elif setting == "medium":
            dtype = torch.bfloat16
    return ROUNDING[dtype]


def same_bar(like: Tensor) -> float:
    """Largest difference of two ways to compute one thing, in the same precision."""
    if rounding(like) > ROUNDING[like.dtype]:  # products in TF32 or bf16
        return rounding(like) / 4
    return 1e-9 if like.dtype == torch.float64 else 2e-5


def difference(found: Tensor, expected: Tensor) -> float:
    """Largest difference relative to the largest expected number."""
    if found.shape != expected.shape:
        return float("inf")
    found, expected = found.detach(), expected.detach().to(found.dtype)
    return float((found - expected).abs().max() / expected.abs().max().clamp_min(1e-6))


def product_difference(
    product: Tensor, left: Tensor, right: Tensor, shift: Tensor | None = None
) -> float:
    """How far `product` is from `left @ right + shift`, without making it: both are applied to two
    vectors of random signs.

    Freivalds' check: a row that is off shows in a vector unless the signs cancel it, at the cost of
    one column instead of all. The vectors stand on the left of transposed factors: columns would
    take several times as long.
    """
    signs = _random_signs(product.shape[-1], product.dtype, product.device)
    remade = signs @ right.mT @ left.mT
    if shift is not None:
        remade = remade + (signs @ shift)[:, None]
    return difference(remade, signs @ product.mT)


@functools.lru_cache(maxsize=64)
def _random_signs(
    width: int, dtype: torch.dtype, device: torch.device
) -> Float[Tensor, "two width"]:
    generator = torch.Generator().manual_seed(width)
    return (torch.randint(0, 2, (2, width), generator=generator) * 2 - 1).to(device, dtype)
