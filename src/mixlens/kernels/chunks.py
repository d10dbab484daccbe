"""Choose block sizes and the precision of intermediate computations. Other modules call these
functions instead of choosing sizes themselves.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

LARGEST = 256 * 2**20  # bytes; larger products are not faster on a CPU
_SMALLEST = 2**20
CACHED = 4 * 2**20  # on a CPU, blocks that share the cache with their results
_CACHED_ROWS = 32 * 2**20  # vectors that stay in the cache between steps: a quarter faster
_DEVICE = 4 * 2**30  # on a GPU few large products, because pieces run one after the other


def block_bytes(budget: int) -> int:
    """Return the maximum size in bytes of one temporary tensor under the user's memory budget."""
    return max(_SMALLEST, min(LARGEST, budget // 4))


def cached_bytes(budget: int, device: torch.device) -> int:
    """Return the maximum size in bytes of a block for a chain of elementwise operations.

    On a CPU, the block should stay in the cache between these operations.
    """
    return min(block_bytes(budget), CACHED) if device.type == "cpu" else block_bytes(budget)


def product_bytes(device: torch.device) -> int:
    """Return the maximum size in bytes of a temporary tensor that is used in a single matrix
    product.
    """
    return LARGEST // 4 if device.type == "cpu" else _DEVICE // 4


def rows_at_once(row_bytes: int, budget: int, device: torch.device | None = None) -> int:
    """Return how many rows of `row_bytes` bytes fit into the memory budget.

    Their total size is also capped at `LARGEST` bytes, or at the limit for `device` if you pass
    one.
    """
    if device is None:
        largest = LARGEST
    elif device.type == "cpu":
        largest = min(LARGEST, _CACHED_ROWS)
    else:
        largest = min(_DEVICE, max(LARGEST, budget // 2))
    return max(1, min(budget, largest) // max(1, row_bytes))


def tangents_at_once(bytes_each: int, budget: int, device: torch.device) -> int:
    """Return how many tangents to propagate through a layer at once.

    On a GPU, a few large products are faster than many small ones.
    """
    size = rows_at_once(bytes_each, budget)
    return size if device.type == "cpu" else max(size, min(budget // 4, 2 * _DEVICE) // bytes_each)


def slices(count: int, bytes_each: int, limit: int) -> Iterator[slice]:
    """Yield slices that cover range(count).

    Each slice takes at most `limit` bytes but contains at least one element.
    """
    step = max(1, limit // max(1, bytes_each))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def sources_first(
    weights: Float[Tensor, "batch head target source"],
) -> Float[Tensor, "batch source target head"]:
    """Permute the axes so that sources come before targets and heads.

    The result is a non-contiguous view. Making it contiguous takes half as long as permuting three
    axes at once: targets and heads are swapped first by copying whole rows, so only a matrix
    transpose remains.
    """
    return weights.transpose(1, 2).contiguous().permute(0, 3, 1, 2)


def split_chunks(tensor: Tensor, size: int) -> Iterator[Tensor]:
    """Yield consecutive chunks of at most `size` entries along the first axis."""
    for start in range(0, len(tensor), size):
        yield tensor[start : start + size]


def computing_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return float32 for half-precision dtypes, and any other dtype unchanged."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def upcast_tensor(tensor: Tensor) -> Tensor:
    """Upcast a half-precision tensor to float32. Other tensors keep their dtype."""
    return tensor.to(computing_dtype(tensor.dtype))


def in_float64(tensor: Tensor) -> Tensor:
    """Convert a tensor to float64 if the device supports it.

    Squares and normal equations lose half of the significant digits, and the matrices for which
    this is used are small.
    """
    return tensor if tensor.device.type == "mps" else tensor.to(torch.float64)
