"""Rank measures over several evaluations, with intervals from resampled texts.

All measures and evaluations share the same samples of texts. The value of a measure in a sample is
estimated as its value on the full data, plus the change in the mean of its per-example results.
This estimate is exact if the value is that mean, and approximate if the value is a rate over the
whole corpus. Evaluations that do not use the texts keep their ranks in all samples. Ties share
their mean rank. Values that differ only by rounding error are ties.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mixlens.evaluating.statistics import adjust_p_values, draw_counts
from mixlens.evaluations import Result

SIGNIFICANT = 0.05
ROUNDING = 1e-6


@dataclass(frozen=True, eq=False, kw_only=True)
class Column:
    """The results of one evaluation for all measures."""

    evaluation: str
    direction: str
    results: Mapping[str, Result]
    values: Mapping[
        str, np.ndarray
    ]  # one number per example, the same examples for every measure; NaN if it has none
    by_text: bool = True  # whether the examples are the texts of the data
    itself: frozenset[str] = (
        frozenset()
    )  # measures that work like the evaluation, and would evaluate themselves
    summary: str = ""

    @property
    def of_data(self) -> bool:
        """Return whether the evaluation uses the data set, not only cases that it defines
        itself.
        """
        return self.by_text or not self.values

    def find_ranked(self, measures: Sequence[str]) -> np.ndarray:
        """Return a boolean mask [measure] of the measures that this evaluation ranks."""
        return np.array(
            [
                self.direction != "neither"
                and m not in self.itself
                and m in self.results
                and not math.isnan(self.results[m].value)
                for m in measures
            ]
        )

    def scores(self, measures: Sequence[str], weights: np.ndarray | None) -> np.ndarray:
        """Return scores [draw, measure], where larger is better, and NaN for measures that are not
        ranked.

        `weights` [draw, text] count how often each text occurs in each sample. Without `weights`,
        the scores are those of the full data, [1, measure].
        """
        sign = -1.0 if self.direction == "lower" else 1.0
        plain = np.array(
            [self.results[m].value if m in self.results else math.nan for m in measures]
        )[None]
        if weights is not None and self.by_text:
            values = np.stack(
                [self.values.get(m, np.full(weights.shape[1], math.nan)) for m in measures]
            )
            plain = plain + np.nan_to_num(
                _means(weights, values) - _means(np.ones((1, weights.shape[1])), values)
            )
        return np.where(self.find_ranked(measures)[None], sign * plain, math.nan)


@dataclass(frozen=True)
class Standing:
    """The mean rank of a measure (1 = best) over the evaluations that rank it, with an interval and
    a p-value.
    """

    mean_rank: float
    interval: tuple[float, float]
    judged_by: int
    p_first: float = math.nan  # p-value of the difference from the first, with Holm's correction
    ranks: Mapping[str, float] = field(default_factory=dict)  # evaluation -> rank


def ranks_of(scores: np.ndarray) -> np.ndarray:
    """Return the ranks of scores [draw, measure]. The largest score has rank 1.

    Ties share their mean rank, and NaN stays NaN.
    """
    a, b = scores[:, :, None], scores[:, None, :]
    tied = np.isclose(a, b, rtol=ROUNDING, atol=1e-12)
    ahead = ((b > a) & ~tied).sum(-1) + (tied.sum(-1) - 1) / 2
    return np.where(np.isnan(scores), math.nan, 1.0 + ahead)


def standings(
    columns: Sequence[Column], measures: Sequence[str], *, baseline: str, seed: int = 0
) -> dict[str, Standing]:
    """Return the standing of each measure, from best to worst.

    A measure that is ranked by fewer than half of the evaluations comes last.
    """
    columns = [column for column in columns if column.find_ranked(measures).any()]
    if not columns:
        return {measure: Standing(math.nan, (math.nan, math.nan), 0) for measure in measures}
    each = np.stack(
        [ranks_of(column.scores(measures, None))[0] for column in columns]
    )  # [evaluation, measure]
    mean = _mean(each, 0)
    rank_draws = _draw_ranks(columns, measures, seed)
    by_measure = {}
    counts = (~np.isnan(each)).sum(0)
    order = sorted(
        range(len(measures)),
        key=lambda i: (counts[i] * 2 < len(columns), math.isnan(mean[i]), mean[i]),
    )
    first = next((i for i in order if measures[i] != baseline), order[0])
    p_values = adjust_p_values(
        [math.nan if i == first else _p(rank_draws, first, i) for i in order]
    )
    for p, i in zip(p_values, order, strict=True):
        low, high = math.nan, math.nan
        if rank_draws is not None and not np.isnan(rank_draws[:, i]).all():
            low, high = np.nanquantile(rank_draws[:, i], [0.025, 0.975])
        ranks = {
            column.evaluation: float(rank)
            for column, rank in zip(columns, each[:, i], strict=True)
            if not math.isnan(rank)
        }
        by_measure[measures[i]] = Standing(
            float(mean[i]), (float(low), float(high)), int(counts[i]), p, ranks
        )
    return by_measure


def _draw_ranks(columns: Sequence[Column], measures: Sequence[str], seed: int) -> np.ndarray | None:
    """Return the mean ranks [draw, measure] in bootstrap samples of the texts.

    Return None if there are too few texts to resample, or no evaluation uses them.
    """
    counts = {
        len(values) for column in columns if column.by_text for values in column.values.values()
    }
    if len(counts) != 1 or min(counts) < 2:
        return None
    weights = draw_counts(counts.pop(), seed)
    each = [
        np.broadcast_to(ranks_of(column.scores(measures, weights)), (len(weights), len(measures)))
        for column in columns
    ]
    return _mean(np.stack(each), 0)


def _means(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the weighted means [draw, measure] of values [measure, example], ignoring NaN."""
    counts = weights @ (~np.isnan(values)).T
    means: np.ndarray = np.divide(
        weights @ np.nan_to_num(values).T,
        counts,
        out=np.full(counts.shape, math.nan),
        where=counts > 0,
    )
    return means


def _mean(values: np.ndarray, axis: int) -> np.ndarray:
    is_number = ~np.isnan(values)
    counts = is_number.sum(axis)
    mean: np.ndarray = np.divide(
        np.nansum(values, axis), counts, out=np.full(counts.shape, math.nan), where=counts > 0
    )
    return mean


def _p(rank_draws: np.ndarray | None, first: int, other: int) -> float:
    """Return the two-sided p-value of the difference in mean rank between `first` and `other`.

    The p-value is based on the share of samples in which `other` ranks at least as well as `first`.
    """
    if rank_draws is None:
        return math.nan
    gaps = rank_draws[:, other] - rank_draws[:, first]
    if np.isnan(gaps).all():
        return math.nan
    return min(1.0, 2 * (1 + int((gaps <= 1e-12).sum())) / (1 + len(gaps)))
