from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from mixlens.kernels.simplex import left_null_basis, shortest_distribution, shortest_rows


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(2, 15),
    d_head=st.integers(1, 5),
    peak=st.sampled_from([0.5, 3.0]),
    seed=st.integers(0, 10**6),
)
def test_is_the_shortest_distribution_with_the_same_product(
    count: int, d_head: int, peak: float, seed: int
) -> None:
    random = np.random.default_rng(seed)
    values = np.hstack([random.normal(size=(count, d_head)), np.ones((count, 1))])
    weights = np.exp(peak * random.normal(size=count))
    weights /= weights.sum()
    shortest = shortest_distribution(weights, left_null_basis(values, 1e-12))
    assert shortest.min() >= 0
    np.testing.assert_allclose(shortest @ values, weights @ values, atol=1e-9)
    assert shortest @ shortest <= weights @ weights + 1e-12
    # It is the shortest exactly if no feasible row has a smaller product with it: one linear
    # programme says so.
    least = linprog(shortest, A_eq=values.T, b_eq=values.T @ weights, bounds=(0, None))
    assert least.status == 0
    assert least.fun >= shortest @ shortest - 1e-8


def test_a_target_that_sees_nothing_has_a_row_of_zeros() -> None:
    weights = torch.softmax(torch.randn(1, 2, 3, 3, dtype=torch.float64), -1)
    seen = torch.ones(1, 1, 3, 3, dtype=torch.bool).tril(-1)
    rows = shortest_rows(weights * seen, torch.randn(1, 2, 3, 2, dtype=torch.float64), seen)
    assert not rows[:, :, 0].any()
    assert rows[:, :, 1:].any(-1).all()


def test_the_signs_matter() -> None:
    values = np.array([[1.0, 1], [0, 1], [-1, 1], [-2, 1]])
    weights = np.array([0.9, 0.1, 0, 0])
    shortest = shortest_distribution(weights, left_null_basis(values, 1e-12))
    np.testing.assert_allclose(shortest @ values, weights @ values, atol=1e-12)
    assert shortest.min() >= 0
    assert (
        weights - left_null_basis(values, 1e-12) @ left_null_basis(values, 1e-12).T @ weights
    ).min() < 0
