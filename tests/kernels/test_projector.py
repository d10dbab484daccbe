"""Projectors, shared by all targets or one per target: the removed part has no effect, and the rest
is as short as possible.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mixlens.kernels import prefixes
from mixlens.kernels.prefixes import ordered_directions, visible_projection
from mixlens.kernels.projector import projector, value_columns, with_ones
from tests.kernels.decompositions import LargestTensor

shapes = {
    "batch": st.integers(1, 2),
    "heads": st.integers(1, 3),
    "count": st.integers(1, 12),
    "d_head": st.integers(1, 5),
}


def case(
    batch: int, heads: int, count: int, d_head: int, repeats: int, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Weights, values of which the first `repeats` come again, and an output projection."""
    torch.manual_seed(seed)
    values = torch.randn(batch, heads, count, d_head, dtype=torch.float64)
    repeats = min(repeats, count // 2)
    values[:, :, count - repeats :] = values[:, :, :repeats]
    return (
        torch.softmax(torch.randn(batch, heads, count, count, dtype=torch.float64), -1),
        values,
        torch.randn(heads, d_head, 7, dtype=torch.float64),
    )


def earlier(batch: int, count: int) -> Tensor:
    """What causal targets see."""
    return torch.ones(batch, 1, count, count).tril().bool()


@settings(max_examples=60, deadline=None)
@given(
    **shapes,
    repeats=st.integers(0, 3),
    padding=st.integers(0, 2),
    ones=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_shared_projection(
    batch: int,
    heads: int,
    count: int,
    d_head: int,
    repeats: int,
    padding: int,
    ones: bool,
    seed: int,
) -> None:
    weights, values, output = case(batch, heads, count, d_head, repeats, seed)
    lengths = torch.tensor([count, max(1, count - padding)][:batch])
    weights = weights * (torch.arange(count) < lengths[:, None])[:, None, None]
    columns = value_columns(values, output, lengths)
    columns = with_ones(columns, lengths) if ones else columns
    projection = projector(columns, lengths, torch.float64)
    effective = projection(weights)
    torch.testing.assert_close(effective @ values, weights @ values, atol=1e-9, rtol=0)
    for row, length in enumerate(lengths.tolist()):
        for head in range(heads):
            t = values[row, head, :length] @ output[head]
            t = torch.cat([t, torch.ones(length, 1, dtype=torch.float64)], 1) if ones else t
            pinv = torch.linalg.pinv(t, rtol=1e-9)
            torch.testing.assert_close(
                effective[row, head, :, :length],
                weights[row, head, :, :length] @ t @ pinv,
                atol=1e-8,
                rtol=0,
            )
            assert int(projection.rank[row, head]) == int(torch.linalg.matrix_rank(t, rtol=1e-9))
            assert not effective[row, head, :, length:].any()


@settings(max_examples=60, deadline=None)
@given(
    **shapes,
    repeats=st.integers(0, 3),
    window=st.sampled_from([None, 1, 4]),
    limit=st.sampled_from([1, 2**20]),
    seed=st.integers(0, 10**6),
)
def test_projection_on_what_each_target_sees(
    batch: int,
    heads: int,
    count: int,
    d_head: int,
    repeats: int,
    window: int,
    limit: int,
    seed: int,
) -> None:
    weights, values, output = case(batch, heads, count, d_head, repeats, seed)
    lengths = torch.full((batch,), count)
    positions = torch.arange(count).expand(batch, count)
    distance = torch.arange(count)[:, None] - torch.arange(count)
    one = (distance >= 0) & (distance <= (count if window is None else window))
    seen = one.expand(batch, count, count)
    weights = weights * seen[:, None]
    columns = value_columns(values, output, lengths)
    effective, rank = visible_projection(weights, columns, positions, seen[:, None], limit)
    torch.testing.assert_close(effective @ values, weights @ values, atol=1e-9, rtol=0)
    assert not (effective * ~seen[:, None]).any()
    for row in range(batch):
        for head in range(heads):
            assert int(rank[row, head]) == int(
                torch.linalg.matrix_rank(values[row, head], rtol=1e-9)
            )
            for target in range(count):
                at = seen[row, target].nonzero()[:, 0]
                t = values[row, head, at]
                expected = weights[row, head, target, at] @ t @ torch.linalg.pinv(t, rtol=1e-9)
                torch.testing.assert_close(
                    effective[row, head, target, at], expected, atol=1e-8, rtol=0
                )


def test_ordinary_rows_need_no_singular_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeated tokens, rows of different lengths, more rows than directions: the fast path alone
    must do, in one pass and in several.
    """
    monkeypatch.setattr(
        prefixes,
        "_repair",
        lambda made, wrong, *rest: pytest.fail("repaired") if wrong.any() else None,
    )
    weights, values, output = case(2, 2, 24, 4, 3, 0)
    values[:, :, 1] = values[:, :, 0]
    values[:, :, :, 3] *= 1e-3
    lengths, positions = torch.tensor([24, 17]), torch.arange(24).expand(2, 24)
    seen = (torch.ones(24, 24).tril() * (torch.arange(24) < lengths[:, None, None])).bool()[:, None]
    weights = weights * seen
    for limit in (1, 2**15, 2**24):
        effective, _ = visible_projection(
            weights, value_columns(values, output, lengths), positions, seen, limit
        )
        torch.testing.assert_close(effective @ values, weights @ values, atol=1e-10, rtol=0)


def test_rows_of_a_batch_may_have_other_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that all chosen targets of one row see and only some of another's."""
    monkeypatch.setattr(
        prefixes,
        "_repair",
        lambda made, wrong, *rest: pytest.fail("repaired") if wrong.any() else None,
    )
    weights, values, output = case(2, 2, 12, 3, 0, 0)
    lengths, positions = torch.tensor([12, 12]), torch.tensor([[9, 10], [2, 11]])
    seen = earlier(2, 12)
    columns = value_columns(values, output, lengths)
    whole, _ = visible_projection(
        weights.tril(), columns, torch.arange(12).expand(2, 12), seen, 2**24
    )
    chosen = weights.tril().gather(2, positions[:, None, :, None].expand(2, 2, 2, 12))
    seen = seen.gather(2, positions[:, None, :, None].expand(2, 1, 2, 12))
    made, _ = visible_projection(chosen, columns, positions, seen, 2**24)
    torch.testing.assert_close(
        made, whole.gather(2, positions[:, None, :, None].expand(2, 2, 2, 12)), atol=1e-12, rtol=0
    )


def test_a_badly_conditioned_basis_is_still_orthonormal() -> None:
    torch.manual_seed(0)
    values = torch.randn(1, 1, 30, 4, dtype=torch.float64)
    values[..., 3] = values[..., 2] + 1e-5 * values[..., 3]
    projection = projector(values / values.norm(), torch.tensor([30]), torch.float64)
    torch.testing.assert_close(
        projection.basis.mT @ projection.basis,
        torch.eye(4, dtype=torch.float64)[None, None],
        atol=1e-14,
        rtol=0,
    )


def test_bidirectional_windows() -> None:
    weights, values, output = case(1, 2, 12, 3, 0, 5)
    lengths, positions = torch.tensor([12]), torch.arange(12)[None]
    distance = (torch.arange(12) - torch.arange(12)[:, None]).abs()
    weights = weights * (distance <= 2)
    effective, _ = visible_projection(
        weights,
        value_columns(values, output, lengths),
        positions,
        (distance <= 2)[None, None],
        2**20,
    )
    assert not effective[:, :, distance > 2].any()
    torch.testing.assert_close(effective @ values, weights @ values, atol=1e-9, rtol=0)


def test_heads_may_see_different_sources() -> None:
    weights, values, output = case(2, 3, 14, 4, 2, 7)
    lengths, positions = torch.tensor([14, 14]), torch.arange(14).expand(2, 14)
    torch.manual_seed(1)
    seen = (torch.rand(2, 3, 14, 14) < 0.6) | torch.eye(14).bool()
    weights = weights * seen
    columns = value_columns(values, output, lengths)
    effective, _ = visible_projection(weights, columns, positions, seen, 2**20)
    assert not (effective * ~seen).any()
    for row, head, target in np.ndindex(2, 3, 14):
        at = seen[row, head, target].nonzero()[:, 0]
        t = values[row, head, at]
        expected = weights[row, head, target, at] @ t @ torch.linalg.pinv(t, rtol=1e-9)
        torch.testing.assert_close(effective[row, head, target, at], expected, atol=1e-8, rtol=0)


def test_nearly_dependent_rows_in_float64_are_handled() -> None:
    """Directions that differ by 1e-9: normal equations alone would lose all their digits."""
    torch.manual_seed(0)
    values = torch.randn(1, 1, 10, 4, dtype=torch.float64)
    values[..., 3] = values[..., 2] + 1e-9 * values[..., 3]
    output, lengths = torch.randn(1, 4, 7, dtype=torch.float64), torch.tensor([10])
    weights = torch.softmax(torch.randn(1, 1, 10, 10, dtype=torch.float64), -1).tril()
    columns = value_columns(values, output, lengths)
    causal, _ = visible_projection(weights, columns, torch.arange(10)[None], earlier(1, 10), 2**20)
    shared = projector(columns, lengths, torch.float64)
    assert shared.rank.item() == 4
    left = torch.linalg.svd(values[0, 0], full_matrices=False)[0]
    torch.testing.assert_close(
        shared(weights)[0, 0], weights[0, 0] @ left @ left.T, atol=1e-6, rtol=0
    )
    torch.testing.assert_close(causal[0, 0, 9], weights[0, 0, 9] @ left @ left.T, atol=1e-6, rtol=0)
    torch.testing.assert_close(causal @ values, weights @ values, atol=1e-9, rtol=0)


@pytest.mark.parametrize("causal", [False, True])
def test_float32_is_near_float64(causal: bool) -> None:
    weights, values, output = case(1, 2, 100, 16, 0, 3)
    weights = weights.tril() if causal else weights
    lengths, positions = torch.tensor([100]), torch.arange(100)[None]
    made = []
    for dtype in (torch.float32, torch.float64):
        a, v, w = (tensor.float().to(dtype) for tensor in (weights, values, output))
        columns = value_columns(v, w, lengths)
        made.append(
            visible_projection(a, columns, positions, earlier(1, 100), 2**20)[0]
            if causal
            else projector(columns, lengths, dtype)(a)
        )
    assert made[0].dtype == torch.float32
    assert ((made[0] - made[1]).abs().amax(-1) / made[1].abs().amax(-1)).max() < 1e-5


def test_directions_are_ordered_by_the_row_that_shows_them_first() -> None:
    rows = torch.tensor(
        [[1.0, 0, 0], [2, 0, 0], [1, 1, 0], [0, 3, 0], [0, 0, 5]], dtype=torch.float64
    )
    basis, births = ordered_directions(rows[None, None], 1e-12)
    assert births.tolist() == [[[0, 2, 4]]]
    torch.testing.assert_close(basis.mT @ basis, torch.eye(3, dtype=torch.float64)[None, None])
    basis, births = ordered_directions(rows[None, None, :4], 1e-12)
    assert births.tolist() == [[[0, 2, 4]]]  # 4: never
    assert not basis[..., 2].any()


def test_directions_are_orthogonal_also_where_rows_are_nearly_parallel() -> None:
    torch.manual_seed(0)
    rows = torch.randn(1, 1, 1, 6, dtype=torch.float64) + 1e-9 * torch.randn(
        1, 1, 6, 6, dtype=torch.float64
    )
    basis, _ = ordered_directions(rows, 1e-14)
    torch.testing.assert_close(
        basis.mT @ basis, torch.eye(6, dtype=torch.float64)[None, None], atol=1e-13, rtol=0
    )


def test_no_projector_per_target_is_kept() -> None:
    weights, values, output = case(1, 4, 128, 16, 0, 0)
    lengths, positions = torch.tensor([128]), torch.arange(128)[None]
    columns = value_columns(values, output, lengths)
    with LargestTensor() as largest:
        visible_projection(weights.tril(), columns, positions, earlier(1, 128), 2**20)
    assert (
        largest.numbers <= 2**20
    )  # 8 MB; the projectors of all targets would be 4 x 128 x 128 x 128


def few_targets() -> tuple[Tensor, ...]:
    weights, values, output = case(2, 3, 40, 5, 4, 0)
    lengths, positions = torch.tensor([40, 33]), torch.tensor([[39, 20], [32, 6]])
    seen = earlier(2, 40).gather(2, positions[:, None, :, None].expand(2, 1, 2, 40))
    return weights[:, :, :2] * seen, values, output, lengths, positions, seen


def test_targets_that_see_every_direction_need_no_basis(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, values, output, lengths, positions, seen = few_targets()
    columns = value_columns(values, output, lengths)
    expected = visible_projection(chosen, columns, positions, seen, 1)  # one target at a time
    monkeypatch.setattr(prefixes, "ordered_directions", lambda *_: pytest.fail("ordered"))
    made = visible_projection(chosen, columns, positions, seen, 2**30)
    torch.testing.assert_close(made, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("scale", [1e-3, 1e-6, 1e-9, 1e-12, 1e-13, 1e-14, 1e-16, 0.0])
def test_small_directions_count_alike_for_few_targets(scale: float) -> None:
    chosen, values, output, lengths, positions, seen = few_targets()
    values[..., 4] *= scale
    columns = value_columns(values, output, lengths)
    (one, rank), (other, other_rank) = (
        visible_projection(chosen, columns, positions, seen, limit) for limit in (1, 2**30)
    )
    assert torch.equal(rank, other_rank)
    torch.testing.assert_close(one, other, atol=1e-8, rtol=0)
