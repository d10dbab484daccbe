"""How much may lie in memory at once, and in which precision small matrices are formed: the only
place that holds such sizes.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

LARGEST = 256 * 2**20  # bytes; more does not make a product on a CPU faster
_SMALLEST = 2**20
CACHED = 4 * 2**20  # on a CPU, blocks that share the cache with what is made of them
_CACHED_ROWS = 32 * 2**20  # rows that stay in the cache from one step to the next: a quarter faster
_DEVICE = 4 * 2**30  # on a GPU few large products: each piece waits for the last


def block_bytes(budget: int) -> int:
    """The size of one temporary, from the memory that the user allows."""
    return max(_SMALLEST, min(LARGEST, budget // 4))


def cached_bytes(budget: int, device: torch.device) -> int:
    """The same for blocks that are passed over several times, element by element."""
    return min(block_bytes(budget), CACHED) if device.type == "cpu" else block_bytes(budget)


def product_bytes(device: torch.device) -> int:
    """The size of one temporary that is made to be multiplied once."""
    return LARGEST // 4 if device.type == "cpu" else _DEVICE // 4


def rows_at_once(row_bytes: int, budget: int, device: torch.device | None = None) -> int:
    """How many rows fit the budget (at most `LARGEST`, on a named device what suits it), each
    needing `row_bytes`.
    """
    if device is None:
        largest = LARGEST
    elif device.type == "cpu":
        largest = min(LARGEST, _CACHED_ROWS)
    else:
        largest = min(_DEVICE, max(LARGEST, budget // 2))
    return max(1, min(budget, largest) // max(1, row_bytes))


def tangents_at_once(bytes_each: int, budget: int, device: torch.device) -> int:
    """How many tangents are pushed through a layer together: few large products keep a GPU busy."""
    size = rows_at_once(bytes_each, budget)
    return size if device.type == "cpu" else max(size, min(budget // 4, 2 * _DEVICE) // bytes_each)


def slices(count: int, bytes_each: int, limit: int) -> Iterator[slice]:
    """Slices of 0 .. count, each of at most `limit` bytes (but never empty)."""
    step = max(1, limit // max(1, bytes_each))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def sources_first(
    weights: Float[Tensor, "batch head target source"],
) -> Float[Tensor, "batch source target head"]:
    """The same numbers, ready to be copied in that order.

    Whole rows move first. What is left is to turn one matrix, in half the time of three axes at
    once.
    """
    return weights.transpose(1, 2).contiguous().permute(0, 3, 1, 2)


def chunked(tensor: Tensor, size: int) -> Iterator[Tensor]:
    """Consecutive parts along the first axis, none longer than `size`."""
    for start in range(0, len(tensor), size):
        yield tensor[start : start + size]


def wide(tensor: Tensor) -> Tensor:
    """In float64 if the device has it: squares and normal equations lose half of the digits, and
    these matrices are small.
    """
    return tensor if tensor.device.type == "mps" else tensor.to(torch.float64)
