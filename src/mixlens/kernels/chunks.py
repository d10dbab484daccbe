"""How much may lie in memory at once, and in which precision small matrices are formed."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

_LARGEST = 256 * 2**20  # bytes; more does not make anything faster
_SMALLEST = 2**20
# A CPU passes over a block that stays in its last cache several times faster.
_CACHED = 8 * 2**20


def block_bytes(budget: int) -> int:
    """The size of one temporary, from the memory that the user allows."""
    return max(_SMALLEST, min(_LARGEST, budget // 4))


def cached_bytes(budget: int, device: torch.device) -> int:
    """The same for blocks that are passed over several times, element by element."""
    return min(block_bytes(budget), _CACHED) if device.type == "cpu" else block_bytes(budget)


def pieces(count: int, bytes_each: int, limit: int) -> Iterator[slice]:
    """Slices of 0 .. count, each of at most `limit` bytes (but never empty)."""
    step = max(1, limit // max(1, bytes_each))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def wide(tensor: Tensor) -> Tensor:
    """In float64 where the device has it: squares and normal equations lose half of the digits, and
    these matrices are small.
    """
    return tensor if tensor.device.type == "mps" else tensor.to(torch.float64)
