"""Estimate the time of a rollout before it starts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mixlens.errors import InvalidInput
from mixlens.measuring.rollout_of_targets import roll_out_targets
from mixlens.measuring.timing import Budget, estimated_seconds

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording

LONG = 60.0  # seconds from which a warning gives the estimate
_TOKENS = 256  # shorter texts are not estimated without a budget


def check_rollout_time(
    name: str,
    recording: Recording,
    record: Callable[[Mapping[str, Any]], Recording],
    budget: float | None,
    options: Mapping[str, Any],
) -> None:
    """Warn if a rollout takes long; raise `InvalidInput` if it takes longer than `budget` seconds.

    The estimate comes from rollouts of the first tokens; `record` records those for one target.
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
