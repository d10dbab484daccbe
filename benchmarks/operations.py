"""How much a call starts: operations of torch, function calls of Python, and what starting one
operation costs. On short inputs this decides how long a GPU takes, not what it computes.
"""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.timing import once


@dataclass(frozen=True)
class Started:
    """What one call starts."""

    computing: int  # operations of torch that compute or copy something
    views: int  # those that only give a tensor a different shape
    calls: int  # function calls of Python

    def __str__(self) -> str:
        return f"{self.computing} operations, {self.views} views, {self.calls} calls of functions"


class _Operations(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.computing = self.views = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        self.views += func.is_view
        self.computing += not func.is_view
        return func(*args, **(kwargs or {}))


def started(run: Callable[[], Any]) -> Started:
    """Counted in two runs after one that is not counted."""
    run()
    with _Operations() as operations:
        run()
    with cProfile.Profile() as host:
        run()
    calls = int(pstats.Stats(host).total_calls)  # type: ignore[attr-defined]
    return Started(operations.computing, operations.views, calls)


def starting_seconds(device: str, count: int = 2000) -> tuple[float, float]:
    """What starting one operation and one view costs."""
    numbers = torch.zeros(8, 8, device=device)

    def compute() -> None:
        for _ in range(count):
            numbers.add_(1.0)

    def view() -> None:
        for _ in range(count):
            numbers.view(-1)

    compute()
    return min(once(compute) for _ in range(5)) / count, min(once(view) for _ in range(5)) / count
