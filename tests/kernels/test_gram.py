from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mixlens.kernels.decomposition import Decomposition, Vectors
from mixlens.kernels.gram import head_norms, part_norms, summed_norms
from tests.kernels.decompositions import LargestTensor, random_decomposition


@pytest.mark.smoke
@settings(max_examples=40, deadline=None)
@given(
    batch=st.integers(1, 3),
    heads=st.integers(1, 6),
    targets=st.integers(1, 7),
    sources=st.integers(1, 7),
    d_model=st.integers(1, 9),
    limit=st.sampled_from([1, 2000, 2**20]),
    seed=st.integers(0, 10**6),
)
def test_is_the_norm_of_the_materialised_sum(
    batch: int, heads: int, targets: int, sources: int, d_model: int, limit: int, seed: int
) -> None:
    torch.manual_seed(seed)
    weights = torch.rand(batch, heads, targets, sources, dtype=torch.float64)
    values = torch.randn(batch, heads, sources, 3, dtype=torch.float64)
    vectors = Vectors(values, torch.randn(heads, 3, d_model, dtype=torch.float64))
    expected = torch.einsum("bhts,bhsd->btsd", weights, vectors.of()).norm(dim=-1)
    torch.testing.assert_close(
        summed_norms(weights, vectors, limit), expected, atol=1e-7, rtol=1e-10
    )


@pytest.mark.parametrize("gated", [False, True])
def test_norms_by_head(gated: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    batch, heads, targets, sources = 2, 4, 3, 5

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    weights = drawn(batch, heads, targets, sources).abs()
    gate = drawn(batch, targets, heads, 3)
    vectors = Vectors(drawn(batch, heads, sources, 3), drawn(heads, 3, 6))
    factors = gate if gated else torch.ones_like(gate)
    expected = torch.einsum(
        "bhts,bhsk,bthk,hkd->bhtsd", weights, vectors.values, factors, vectors.matrix
    ).norm(dim=-1)
    given_vectors = replace(vectors, gate=gate) if gated else vectors
    torch.testing.assert_close(
        head_norms(weights, given_vectors, 2**20), expected, atol=1e-7, rtol=1e-10
    )


@settings(max_examples=40, deadline=None)
@given(
    count=st.integers(1, 7),
    cross=st.booleans(),
    causal=st.booleans(),
    limit=st.sampled_from([1, 2**20]),
    seed=st.integers(0, 10**6),
)
def test_part_norms_have_the_residual_on_the_diagonal_only(
    count: int, cross: bool, causal: bool, limit: int, seed: int
) -> None:
    parts = random_decomposition(count, cross=cross, causal=causal, seed=seed)
    torch.testing.assert_close(
        part_norms(parts, limit), materialised(parts).norm(dim=-1), atol=1e-10, rtol=1e-10
    )


def materialised(parts: Decomposition) -> torch.Tensor:
    made = torch.einsum("bhts,bhsd,bt->btsd", parts.weights, parts.vectors.of(), parts.scale)
    for row, positions in enumerate(parts.positions.tolist()):
        for target, position in enumerate(positions):
            if parts.own_is_source:
                made[row, target, position] += parts.own[row, target]
    return made


def test_padding_is_left_out() -> None:
    parts = random_decomposition(6, seed=0)
    whole = summed_norms(parts.weights, parts.vectors, 1)
    made = summed_norms(parts.weights, parts.vectors, 1, ends=[4, 6])
    torch.testing.assert_close(made[0, :4, :4], whole[0, :4, :4], atol=1e-12, rtol=0)
    torch.testing.assert_close(made[1], whole[1], atol=1e-12, rtol=0)
    assert not made[0, :4, 4:].any()


def test_float32_keeps_its_digits_where_heads_cancel() -> None:
    """Two heads write nearly opposite vectors: a float32 square would leave 3e-4 of their size as
    noise.
    """
    torch.manual_seed(0)
    vectors = torch.randn(1, 1, 20, 64, dtype=torch.float64)
    vectors = torch.cat([vectors, -vectors + 1e-6 * torch.randn_like(vectors)], 1).float()
    weights = torch.rand(1, 1, 20, 20).expand(1, 2, 20, 20).contiguous()
    expected = torch.einsum("bhts,bhsd->btsd", weights.double(), vectors.double()).norm(dim=-1)
    assert (
        summed_norms(weights, Vectors(vectors, torch.eye(64).expand(2, 64, 64)), 2**20).double()
        - expected
    ).abs().max() < 1e-7 * vectors.norm(dim=-1).max()


@pytest.mark.parametrize("cancelled", [0.0, 1.0])
def test_float32_is_near_float64(cancelled: float) -> None:
    """The residual cancels what attention writes: the diagonal is small next to its parts."""
    exact = random_decomposition(30, seed=1, d_model=96, heads=8)
    written = exact.diagonal - exact.own
    exact = replace(exact, own=exact.own * (1 - cancelled) - cancelled * written * (1 - 1e-3))
    tensors = {item.name: getattr(exact, item.name) for item in fields(exact)}
    narrow: dict[str, Any] = {
        key: value.float()
        for key, value in tensors.items()
        if torch.is_tensor(value) and value.is_floating_point()
    }
    single = replace(exact, **narrow)
    expected, made = part_norms(exact, 2**20), part_norms(single, 2**20).double()
    assert ((made - expected).abs() / expected.amax(-1, keepdim=True)).max() < 1e-5


def test_nothing_as_large_as_targets_by_sources_by_width_is_made() -> None:
    parts = random_decomposition(64, seed=0, d_model=256, heads=4, batch=1)
    with LargestTensor() as largest:
        part_norms(parts, 2**20)
    assert largest.numbers < 64 * 64 * 256 / 4
