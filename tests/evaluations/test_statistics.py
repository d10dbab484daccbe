from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from mixlens.evaluating import statistics as _statistics
from mixlens.evaluating.statistics import (
    adjust_p_values,
    difference_p,
    interval_of,
    nan_mean,
    spearman,
    spearman_rows,
)

_numbers = st.integers(-5, 5).map(float)  # with many ties


@given(
    st.integers(2, 12).flatmap(lambda n: st.tuples(*[arrays(np.float64, n, elements=_numbers)] * 2))
)
def test_spearman_is_scipys(pair: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = pair
    rho = spearman(a, b)
    if len(set(a)) == 1 or len(set(b)) == 1:
        assert math.isnan(rho)
    else:
        assert rho == pytest.approx(stats.spearmanr(a, b).statistic, abs=1e-12)


def test_many_correlations_at_once_are_the_same_numbers() -> None:
    draw = np.random.default_rng(0)
    a, rows = draw.integers(0, 5, 8), draw.integers(0, 4, (20, 8)).astype(float)
    rows[3] = 1.0  # constant
    np.testing.assert_allclose(
        spearman_rows(a, rows), [spearman(a, row) for row in rows], atol=1e-12, equal_nan=True
    )


def test_spearman_of_too_little_or_of_nan_is_nan() -> None:
    assert math.isnan(spearman(np.array([1.0]), np.array([1.0])))
    assert math.isnan(spearman(np.array([1.0, np.nan, 2.0]), np.array([1.0, 2.0, 3.0])))


def test_a_mean_over_known_entries() -> None:
    nan = math.nan
    mean = nan_mean([[1.0, nan, nan], [3.0, 2.0, nan]])
    assert mean[:2].tolist() == [2, 2]
    assert math.isnan(mean[2])


def test_the_interval_has_the_nominal_coverage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_statistics, "RESAMPLES", 300)
    generator = np.random.default_rng(0)
    hits = 0
    for number in range(300):
        low, high = interval_of(generator.exponential(1.0, 60), seed=number)
        hits += low <= 1.0 <= high
    assert 0.88 <= hits / 300 <= 0.98


def test_the_interval_is_scipys_percentile_bootstrap() -> None:
    values = np.random.default_rng(3).normal(size=80)
    theirs = stats.bootstrap(
        (values,),
        np.mean,
        method="percentile",
        n_resamples=2000,
        random_state=np.random.default_rng(1),
    ).confidence_interval
    assert interval_of(values) == pytest.approx((theirs.low, theirs.high), abs=0.03)


def test_an_interval_takes_a_statistic_and_a_seed() -> None:
    values = np.random.default_rng(0).normal(size=(40, 2))
    low, high = interval_of(values, lambda drawn: np.median(drawn[..., 0], 1))
    assert low <= np.median(values[:, 0]) <= high
    assert (
        interval_of(values[:, 0], seed=1)
        == interval_of(values[:, 0], seed=1)
        != interval_of(values[:, 0], seed=2)
    )


def test_one_example_has_no_interval() -> None:
    assert all(math.isnan(end) for end in interval_of(np.array([1.0])))


def test_under_the_null_p_values_are_uniform() -> None:
    generator = np.random.default_rng(0)
    p_values = [
        difference_p(generator.normal(size=25), generator.normal(size=25), seed=number)
        for number in range(150)
    ]
    assert stats.kstest(p_values, "uniform").pvalue > 0.01
    assert np.mean(np.array(p_values) <= 0.1) == pytest.approx(0.1, abs=0.07)


def test_p_is_the_exact_permutation_test_for_few_examples() -> None:
    gaps = np.array([0.5, 1.0, 0.25, 2.0, 0.75])  # all of one sign: 2 of 2^5 flips are as far
    assert difference_p(gaps, np.zeros(5)) == pytest.approx(2 / 32, abs=0.01)
    mixed = np.array([3.0, -1.0, 0.5, 1.5])
    signs = np.array(np.meshgrid(*[[-1, 1]] * 4)).reshape(4, -1).T
    exact = np.mean(np.abs(signs @ mixed) >= abs(mixed.sum()) - 1e-12)
    assert difference_p(mixed, np.zeros(4)) == pytest.approx(exact, abs=0.02)


def test_p_of_equal_of_clearly_different_and_of_no_pairs() -> None:
    a = np.random.default_rng(0).normal(size=40)
    assert difference_p(a, a) == 1.0
    assert difference_p(a + 3, a) < 0.001
    assert math.isnan(difference_p(np.array([np.nan, 1.0]), np.array([1.0, np.nan])))
    assert difference_p(np.append(a, np.nan), np.append(a + 3, 0.0)) == difference_p(a, a + 3)


def test_holm_by_hand() -> None:
    # in order .01, .02, .03, .04: times 4, 3, 2, 1 = .04, .06, .06, .04, and none below the one
    # before it
    assert adjust_p_values([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert adjust_p_values([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    with_nan = adjust_p_values([0.01, math.nan, 0.04])  # what was not asked is not corrected for
    assert with_nan[0] == pytest.approx(0.02)
    assert math.isnan(with_nan[1])
    assert with_nan[2] == pytest.approx(0.04)
    assert adjust_p_values([]) == []


@settings(max_examples=50)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_keeps_the_order_and_only_raises(values: list[float]) -> None:
    raised = adjust_p_values(values)
    assert all(value <= new <= 1 for value, new in zip(values, raised, strict=True))
    order = np.argsort(values, kind="stable")
    assert all(np.diff(np.array(raised)[order]) >= 0)
