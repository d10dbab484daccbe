"""Statistics: bootstrap intervals over examples, paired differences between two measures, rank
correlation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mixlens.errors import MissingExtra

RESAMPLES = 2000
_FLIPS, _AT_ONCE = 10_000, 500
_DRAWN_NUMBERS = 2**22  # numbers held in memory while sampling


_ENDS = [0.025, 0.975]  # of an interval of 95 %


def interval_of(
    values: np.ndarray,
    statistic: Callable[..., Any] | None = None,
    *,
    seed: int = 0,
) -> tuple[float, float]:
    """Return a percentile bootstrap interval over the first axis of `values` [example, ...].

    `statistic(resamples)` returns one number for each sample of `resamples` [draw, example, ...];
    the default is the mean. With fewer than two examples the interval is (nan, nan).
    """
    values = np.asarray(values, np.float64)
    if len(values) < 2:
        return math.nan, math.nan
    generator = np.random.default_rng(seed)
    at_once = max(1, _DRAWN_NUMBERS // values.size)
    estimates = []
    for start in range(0, RESAMPLES, at_once):
        draws = min(at_once, RESAMPLES - start)
        resamples = values[generator.integers(0, len(values), (draws, len(values)))]
        estimates.append(resamples.mean(1) if statistic is None else statistic(resamples))
    finite_estimates = np.concatenate(estimates)
    finite_estimates = finite_estimates[~np.isnan(finite_estimates)]
    if not finite_estimates.size:
        return math.nan, math.nan
    low, high = np.quantile(finite_estimates, _ENDS)
    return float(low), float(high)


def draw_counts(examples: int, seed: int) -> np.ndarray:
    """Return how often each example is drawn in each resample: [draw, example].

    Use these counts if statistics of several arrays over the same examples should share their
    resamples.
    """
    generator = np.random.default_rng(seed)
    shares = np.full(examples, 1 / examples)
    counts: np.ndarray = generator.multinomial(examples, shares, RESAMPLES).astype(np.float64)
    return counts


def difference_p(a: np.ndarray, b: np.ndarray, *, seed: int = 0) -> float:
    """Return the p-value of a paired, two-sided sign-flip permutation test between two measures."""
    pairs = ~(np.isnan(a) | np.isnan(b))
    gaps = (a - b)[pairs]
    if len(gaps) == 0:
        return math.nan
    if not gaps.any():
        return 1.0
    generator = np.random.default_rng(seed)
    as_far = 1  # the observed order
    for _ in range(_FLIPS // _AT_ONCE):
        signs = generator.choice([-1.0, 1.0], (_AT_ONCE, len(gaps)))
        as_far += int((np.abs(signs @ gaps) >= abs(gaps.sum()) * (1 - 1e-12)).sum())
    return as_far / (1 + _FLIPS)


def adjust_p_values(p_values: Sequence[float]) -> list[float]:
    """Return p-values with Holm's correction for multiple tests. NaN stays NaN."""
    values = np.asarray(p_values, np.float64)
    number_places = np.flatnonzero(~np.isnan(values))
    raised = values.copy()
    largest = 0.0
    for rank, place in enumerate(number_places[np.argsort(values[number_places], kind="stable")]):
        largest = max(largest, min(1.0, float(values[place]) * (len(number_places) - rank)))
        raised[place] = largest
    return [float(value) for value in raised]


def nan_mean(values: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Return the mean over the first axis, ignoring NaN. The mean is NaN if all values are NaN."""
    array = np.asarray(values, np.float64)
    is_number = ~np.isnan(array)
    mean: np.ndarray = np.where(is_number, array, 0).sum(0) / np.where(
        is_number.any(0), is_number.sum(0), np.nan
    )
    return mean


def tied_ranks(values: np.ndarray) -> np.ndarray:
    """Return ranks along the last axis. The smallest value has rank 1, and ties share their mean
    rank.
    """
    try:
        from scipy.stats import rankdata
    except ImportError as error:
        raise MissingExtra("scipy") from error
    ranks: np.ndarray = rankdata(values, axis=-1)
    return ranks


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    """Return Spearman's rank correlation with tied ranks, or NaN if one side is constant or has
    fewer than two entries.
    """
    if len(a) < 2 or (a == a[0]).all() or (b == b[0]).all():
        return math.nan
    try:
        from scipy.stats import spearmanr
    except ImportError as error:
        raise MissingExtra("scipy") from error
    return float(spearmanr(a, b).statistic)


def spearman_rows(a: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return Spearman's correlation of `a` [entry] with each of `others` [row, entry]."""
    ranks = [side - side.mean(-1, keepdims=True) for side in (tied_ranks(a), tied_ranks(others))]
    sizes = np.sqrt((ranks[0] ** 2).sum() * (ranks[1] ** 2).sum(-1))
    products = ranks[1] @ ranks[0]
    correlations: np.ndarray = np.divide(
        products, sizes, out=np.full(len(others), math.nan), where=sizes > 0
    )
    return correlations
