"""How long a measure will take on a long text, from how long it takes on the first tokens of it.

Time grows like a power of the length. A few short runs, each twice as long as the one before, give
the power. They stop as soon as the answer is clear.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from mixlens.recording.padding import PER_TOKEN

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording

SHORTEST = 16
_STEEPEST = 3.0  # n copies of a text, in which every token meets every other


def estimated_seconds(
    run: Callable[[Recording], object],
    shorter: Callable[[int], Recording],
    length: int,
    budget: float,
) -> float:
    """About how long `run` takes on a recording of `length` tokens: exact enough to be compared
    with `budget`.
    """
    size, before, estimate = SHORTEST, None, 0.0
    run(shorter(size))  # whatever is loaded and found out only once
    while size < length:
        taken = min(_timed(run, shorter(size)) for _ in range(2))
        if before is None:
            estimate = taken * (length / size) ** _STEEPEST
            if estimate <= budget:
                break
        else:
            power = min(max(math.log2(taken / before), 1.0), _STEEPEST)
            estimate = taken * (length / size) ** power
            if estimate <= budget / 4 or taken > budget / 10:
                break
        if taken * length / size > budget:
            break
        before, size = taken, 2 * size
    return estimate


def _timed(run: Callable[[Recording], object], recording: Recording) -> float:
    start = time.perf_counter()
    run(recording)
    return max(time.perf_counter() - start, 1e-6)


def first_tokens(inputs: Mapping[str, Any], count: int) -> dict[str, Any] | None:
    """The first tokens of a batch of texts; None if the input is not tokens alone."""
    cut = {}
    for name, value in inputs.items():
        if name.removeprefix("decoder_") not in PER_TOKEN or not isinstance(value, Tensor):
            return None
        if value.dim() > 2 and not name.endswith("inputs_embeds"):
            return None
        cut[name] = value[:, :count]
    return cut
