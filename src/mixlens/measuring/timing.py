"""Estimate the time of a measure or a rollout on a long text from runs on the first tokens.

The time is modelled as a constant plus a power of the length with an exponent from 1 to 3. The
exponent is estimated from a few short runs, each on twice as many tokens as the previous one. The
runs stop as soon as it is clear whether the measure fits the budget.
"""

from __future__ import annotations

import functools
import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

from torch import Tensor

from mixlens.errors import InvalidInput
from mixlens.measuring.rollout_of_targets import roll_out_targets
from mixlens.text.padding import PER_TOKEN

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording


SHORTEST = 16
_FLATTEST, _STEEPEST = 1.0, 3.0  # a pass over the text; n copies of it with all pairs of tokens


@dataclass(frozen=True, kw_only=True)
class Budget:
    """A time limit in seconds for one measure, and a function that records the first tokens of the
    input.
    """

    seconds: float
    shorter: Callable[[int], Recording]

    @classmethod
    def of(
        cls, seconds: float, recording: Recording, record: Callable[[Mapping[str, Any]], Recording]
    ) -> Budget | None:
        """Return the budget, or None if the input cannot be shortened (for example images or
        audio).
        """
        if not isinstance(seconds, Real) or not seconds >= 0:
            raise InvalidInput(f"budget={seconds!r} is not a number of seconds. Pass 0 or more.")
        inputs = recording.inputs
        if first_tokens(inputs, 1) is None:
            return None
        shorter = functools.cache(lambda count: record(first_tokens(inputs, count) or {}))
        return cls(seconds=seconds, shorter=shorter)


def estimated_seconds(
    run: Callable[[Recording], object],
    shorter: Callable[[int], Recording],
    length: int,
    budget: float,
) -> float:
    """Estimate how many seconds `run` takes on a recording of `length` tokens.

    The estimate is only precise enough to tell whether it exceeds `budget`.
    """
    run(shorter(SHORTEST))  # includes work that is done only once
    times = [_time_run(run, shorter(SHORTEST))]
    most = times[0] * math.pow(length / SHORTEST, _STEEPEST)
    if most <= budget:
        return most
    size, power = SHORTEST, _STEEPEST
    while 2 * size < length:
        size *= 2
        times.append(_time_run(run, shorter(size)))
        most, least = (_extrapolate(times, size, length, p) for p in (_STEEPEST, _FLATTEST))
        power = _power(times)
        if most <= budget or least > budget:
            break
        if len(times) > 2 and times[-1] > budget / 10:
            break
    return _extrapolate(times, size, length, power)


def _power(times: list[float]) -> float:
    """Return the exponent of the growth in time, estimated from the last two doublings of the
    length.
    """
    if len(times) < 3 or times[-2] <= times[-3] or times[-1] <= times[-2]:
        return _STEEPEST
    ratio = (times[-1] - times[-2]) / (times[-2] - times[-3])
    return min(max(math.log2(ratio), _FLATTEST), _STEEPEST)


def _extrapolate(times: list[float], size: int, length: int, power: float) -> float:
    """Extrapolate the last measured time to the whole text with this growth exponent."""
    if len(times) < 2:
        return times[-1] * math.pow(length / size, power)
    step = max(times[-1] - times[-2], 0.0) / (1 - math.pow(0.5, power))
    return times[-1] + step * (math.pow(length / size, power) - 1)


def _time_run(run: Callable[[Recording], object], recording: Recording) -> float:
    """Return the faster of two runs, in seconds.

    The smaller of wall time and CPU time counts, because wall time is unreliable on a busy machine.
    """
    times = []
    for _ in range(2):
        start, process_start = time.perf_counter(), time.process_time()
        run(recording)
        times.append(min(time.perf_counter() - start, time.process_time() - process_start))
    return max(min(times), 1e-6)


def first_tokens(inputs: Mapping[str, Any], count: int) -> dict[str, Any] | None:
    """Return the first `count` tokens of each text, or None for inputs such as images or audio."""
    cut = {}
    for name, value in inputs.items():
        if name.removeprefix("decoder_") not in PER_TOKEN or not isinstance(value, Tensor):
            return None
        if value.dim() > 2 and not name.endswith("inputs_embeds"):
            return None
        cut[name] = value[:, :count]
    return cut


LONG = 60.0  # seconds from which a warning gives the estimate
_TOKENS = 256  # shorter texts are not estimated without a budget


def check_rollout_time(
    name: str,
    recording: Recording,
    record: Callable[[Mapping[str, Any]], Recording],
    budget: float | None,
    options: Mapping[str, Any],
) -> None:
    """Warn if a rollout takes long, or raise `InvalidInput` if it exceeds `budget` seconds.

    The time is estimated from rollouts of the first tokens, which `record` records with a single
    target.
    """
    tokens = max(max(lengths) for lengths in recording.lengths.values())
    if budget is None and tokens < _TOKENS:
        return
    limit = Budget.of(LONG if budget is None else budget, recording, record)
    if limit is None:  # the input cannot be shortened
        return

    def run(shorter: Recording) -> object:
        return roll_out_targets(name, shorter, **options)

    seconds = estimated_seconds(run, limit.shorter, tokens, limit.seconds)
    if seconds <= limit.seconds:
        return
    about = f"The rollout of {name} over {tokens:,} tokens takes about {_in_words(seconds)}"
    advice = "Use a shorter text or a cheaper measure, such as attention."
    if budget is not None:
        raise InvalidInput(f"{about}, but the budget is {_in_words(budget)}. {advice}")
    warnings.warn(
        f"{about}. {advice} Pass budget=SECONDS to stop it beforehand if it takes longer.",
        stacklevel=3,
    )


def _in_words(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 120 else f"{seconds / 60:,.0f} min"
