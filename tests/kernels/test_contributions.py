from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mixlens.kernels.contributions import l1_contribution, l1_contributions
from tests.kernels.decompositions import LargestTensor, in_float32, random_decomposition
from tests.kernels.test_gram import materialised


@settings(max_examples=40, deadline=None)
@given(
    count=st.integers(1, 8),
    cross=st.booleans(),
    causal=st.booleans(),
    limit=st.sampled_from([1, 700, 2**20]),
    shift=st.sampled_from([0.0, 1e-2]),
    seed=st.integers(0, 10**6),
)
def test_contributions_equal_those_of_the_full_tensor(
    count: int, cross: bool, causal: bool, limit: int, shift: bool, seed: int
) -> None:
    parts = random_decomposition(count, seed=seed, cross=cross, causal=causal)
    y = parts.total
    made = materialised(parts)
    expected = y.abs().sum(-1)[..., None] - (made - y[:, :, None] + shift).abs().sum(-1)
    if causal:
        expected = expected.tril()
    torch.testing.assert_close(
        l1_contributions(parts, y, limit, shift=shift), expected, atol=1e-12, rtol=0
    )


@pytest.mark.parametrize("limit", [1, 2**20])
def test_padding_is_left_out(limit: int) -> None:
    parts = random_decomposition(6, seed=0)
    whole = l1_contributions(parts, parts.total, limit)
    made = l1_contributions(parts, parts.total, limit, ends=[4, 6])
    torch.testing.assert_close(made[0, :4, :4], whole[0, :4, :4], atol=1e-12, rtol=0)
    torch.testing.assert_close(made[1], whole[1], atol=1e-12, rtol=0)
    if limit == 1:  # a text at a time
        assert not made[0, :4, 4:].any()


def test_a_source_without_weight_contributes_exactly_zero() -> None:
    parts = random_decomposition(6, seed=0)
    parts.weights[:, :, :, 2] = 0
    contributions = l1_contributions(parts, parts.total, 2**20)
    assert not contributions[:, [0, 1, 3, 4, 5], 2].any()
    torch.testing.assert_close(
        contributions[:, 2, 2], l1_contribution(parts.own, parts.total)[:, 2]
    )


def test_nothing_as_large_as_targets_by_sources_by_width_is_made() -> None:
    parts = random_decomposition(64, seed=0, d_model=256, heads=4, batch=1)
    with LargestTensor() as largest:
        l1_contributions(parts, parts.total, 2**19)
    assert largest.numbers <= 64 * 256 * 4


def test_float32_is_near_float64() -> None:
    """Scores are small differences of large norms: what is left must still be right next to the
    row's largest.
    """
    exact = random_decomposition(48, seed=1, d_model=512, heads=8, batch=1)
    single = in_float32(exact)
    expected = l1_contributions(exact, exact.total, 2**20).clamp_min(0)
    made = l1_contributions(single, single.total, 2**20).clamp_min(0).double()
    assert ((made - expected).abs() / expected.amax(-1, keepdim=True)).max() < 1e-5
