"""Choose block sizes and the precision of computation. No other file defines such sizes."""

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
    """Return the size of one temporary, from the memory that the user allows."""
    return max(_SMALLEST, min(LARGEST, budget // 4))


def cached_bytes(budget: int, device: torch.device) -> int:
    """Return the size of a block that is read several times, element by element."""
    return min(block_bytes(budget), CACHED) if device.type == "cpu" else block_bytes(budget)


def product_bytes(device: torch.device) -> int:
    """Return the size of a temporary that is multiplied once."""
    return LARGEST // 4 if device.type == "cpu" else _DEVICE // 4


def rows_at_once(row_bytes: int, budget: int, device: torch.device | None = None) -> int:
    """Return how many rows of `row_bytes` fit the budget (at most `LARGEST`, or the best size for a
    device).
    """
    if device is None:
        largest = LARGEST
    elif device.type == "cpu":
        largest = min(LARGEST, _CACHED_ROWS)
    else:
        largest = min(_DEVICE, max(LARGEST, budget // 2))
    return max(1, min(budget, largest) // max(1, row_bytes))


def tangents_at_once(bytes_each: int, budget: int, device: torch.device) -> int:
    """Return how many tangents pass a layer together. On a GPU, a few large products are faster
    than many small ones.
    """
    size = rows_at_once(bytes_each, budget)
    return size if device.type == "cpu" else max(size, min(budget // 4, 2 * _DEVICE) // bytes_each)


def slices(count: int, bytes_each: int, limit: int) -> Iterator[slice]:
    """Return slices of 0 .. count, each of at most `limit` bytes (but never empty)."""
    step = max(1, limit // max(1, bytes_each))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def sources_first(
    weights: Float[Tensor, "batch head target source"],
) -> Float[Tensor, "batch source target head"]:
    """Return the same values in a layout that is fast to copy in that order. Moving whole rows
    first leaves one matrix to transpose, which takes half the time of permuting three axes at once.
    """
    return weights.transpose(1, 2).contiguous().permute(0, 3, 1, 2)


def chunked(tensor: Tensor, size: int) -> Iterator[Tensor]:
    """Yield consecutive parts along the first axis, none longer than `size`."""
    for start in range(0, len(tensor), size):
        yield tensor[start : start + size]


def computing_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return float32 for half precision, else the same dtype."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def wide(tensor: Tensor) -> Tensor:
    """Return a tensor in float32 or better."""
    return tensor.to(computing_dtype(tensor.dtype))


def in_float64(tensor: Tensor) -> Tensor:
    """Return a tensor in float64 if the device supports it: squares and normal equations lose half
    of the digits, and these matrices are small.
    """
    return tensor if tensor.device.type == "mps" else tensor.to(torch.float64)
