"""Test whether a measure differs from the best one, and whether it is better than chance.

The tests are paired permutation tests on the same examples, with Holm's correction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mixlens.benchmark.standings import ROUNDING, SIGNIFICANT, Column
from mixlens.evaluating.statistics import adjust_p_values, difference_p


@dataclass(frozen=True, kw_only=True)
class Marks:
    """Test results of one measure in one evaluation. A p-value is NaN if the test was not
    possible.
    """

    is_first: bool = False  # whether it has the best value of the evaluation
    p_best: float = math.nan  # p-value against the best of the evaluation
    p_random: float = math.nan  # p-value against the random baseline
    ahead_of_random: bool | None = None  # None if there was no comparison with the baseline
    judges_itself: bool = False

    @property
    def is_best(self) -> bool:
        """Return whether the measure has the best value and is significantly better than random."""
        return self.is_first and not self.not_better_than_random

    @property
    def not_different_from_best(self) -> bool:
        """Return whether the measure is not the best, but does not differ significantly from the
        best.
        """
        return not self.is_first and self.p_best >= SIGNIFICANT

    @property
    def not_better_than_random(self) -> bool:
        """Return whether the measure is not significantly better than random."""
        return self.ahead_of_random is False or self.p_random >= SIGNIFICANT


def marks_of(
    column: Column, measures: Sequence[str], *, baseline: str, seed: int = 0
) -> dict[str, Marks]:
    """Return the test results of every measure that has a value in this evaluation.

    A measure that uses the same method as the evaluation would evaluate itself, so it is never
    marked as the best measure. If this applies to the random baseline, no measure is compared with
    the baseline.
    """
    with_values = [
        m for m in measures if m in column.results and not math.isnan(column.results[m].value)
    ]
    if column.direction == "neither":
        return {m: Marks(judges_itself=m in column.itself) for m in with_values}
    scores = dict(zip(with_values, column.scores(with_values, None)[0], strict=True))
    rivals = [m for m in with_values if m not in column.itself and m != baseline]
    best = max(rivals, key=lambda m: scores[m]) if rivals else None
    challengers = [m for m in with_values if m != best]
    candidates = [m for m in with_values if m != baseline and baseline not in column.itself]
    p_best = dict(
        zip(
            challengers,
            adjust_p_values([_p(column, best, m, seed) for m in challengers]),
            strict=True,
        )
    )
    p_random = dict(
        zip(
            candidates,
            adjust_p_values([_p(column, baseline, m, seed) for m in candidates]),
            strict=True,
        )
    )
    compared = set(candidates) if baseline in with_values else set()
    floor = column.results[baseline].value if compared else math.nan
    sign = -1.0 if column.direction == "lower" else 1.0
    return {
        m: Marks(
            is_first=m == best,
            p_best=p_best.get(m, math.nan),
            p_random=p_random.get(m, math.nan),
            ahead_of_random=(
                bool(sign * column.results[m].value > sign * floor) if m in compared else None
            ),
            judges_itself=m in column.itself,
        )
        for m in with_values
    }


def _p(column: Column, one: str | None, other: str, seed: int) -> float:
    a, b = column.values.get(one or ""), column.values.get(other)
    if a is None or b is None or a.shape != b.shape or (~np.isnan(a) & ~np.isnan(b)).sum() < 2:
        return math.nan
    return (
        1.0
        if np.allclose(a, b, rtol=ROUNDING, atol=1e-12, equal_nan=True)
        else difference_p(a, b, seed=seed)
    )
