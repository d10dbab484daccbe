from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mixlens.evaluations import anisotropy
from tests.evaluations.model_cases import bundled_cases, random_case


def _cosine_of_pairs(vectors: list[np.ndarray]) -> float:
    """The slow way: every pair."""
    cosines = [
        a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in itertools.combinations(vectors, 2)
    ]
    return float(np.mean(cosines))


def _parts(site: Any, target: int, causal: bool) -> list[np.ndarray]:
    """T_i(x_j) from its definition: y_i = sum_j T_i(x_j) + constant."""
    parts = site.parts()
    by_layer = []
    for source in range(site.weights.shape[-1]):
        if causal and source > target:
            continue
        vector = sum(
            site.weights[0, h, target, source] * parts.vectors.of()[0, h, source]
            for h in range(site.weights.shape[1])
        )
        vector = vector * parts.scale[0, target] + (parts.own[0, target] if source == target else 0)
        by_layer.append(vector.numpy())
    return by_layer


@pytest.mark.parametrize("name", ["bert", "llama", "gemma2"])
def test_all_pairs_in_one_sum(name: str) -> None:
    case = random_case(name, 6)
    seen = anisotropy.observe(case)
    result = anisotropy.conclude([seen])
    for number, layer in enumerate(case.recording.layers()):
        site = layer.site()
        outputs = list(site.block_output[0].numpy())
        assert math.isclose(
            result.details["outputs"][number], _cosine_of_pairs(outputs), abs_tol=1e-12
        )
        parts = [
            part for target in range(6) for part in _parts(site, target, site.structure.causal)
        ]
        assert (
            seen["transformed_count"][number] == len(parts) == (21 if site.structure.causal else 36)
        )
        assert math.isclose(
            result.details["transformed"][number], _cosine_of_pairs(parts), abs_tol=1e-10
        )


def test_parts_add_up_to_the_block_output() -> None:
    case = random_case("bert", 6)
    site = case.recording.layers()[1].site()
    for target, vectors in enumerate(anisotropy._transform_vectors(site, np.arange(6), 6)):
        assert torch.allclose(
            vectors.sum(0) + site.parts().constant[0, target], site.block_output[0, target]
        )


def test_texts_are_combined_pair_by_pair() -> None:
    cases = [random_case("bert", 5, seed=0), random_case("bert", 7, seed=1)]
    result = anisotropy.evaluate(cases)
    every = [
        vector
        for case in cases
        for vector in case.recording.layers()[0].site().block_output[0].numpy()
    ]
    assert math.isclose(result.details["outputs"][0], _cosine_of_pairs(every), abs_tol=1e-12)
    alone = [anisotropy.evaluate([case]) for case in cases]
    assert np.allclose(
        result.details["outputs_within"], np.mean([one.details["outputs"] for one in alone], 0)
    )
    assert np.allclose(result.per_example, [one.value for one in alone])
    backwards = anisotropy.evaluate(cases[::-1])
    assert np.allclose(result.details["transformed"], backwards.details["transformed"], rtol=1e-12)


def test_equal_vectors_are_wholly_alike_and_opposite_ones_are_not() -> None:
    vector = np.array([0.6, 0.8])
    assert math.isclose(float(anisotropy.mean_cosine(5 * vector, np.array(5))), 1)
    assert math.isclose(float(anisotropy.mean_cosine(0 * vector, np.array(2))), -1)
    assert np.isnan(anisotropy.mean_cosine(vector, np.array(1)))


@given(st.integers(2, 9), st.integers(1, 5), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_the_closed_form_is_the_mean_over_pairs(count: int, width: int, seed: int) -> None:
    vectors = np.random.default_rng(seed).normal(size=(count, width))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    closed = float(anisotropy.mean_cosine(unit.sum(0), np.array(count)))
    assert math.isclose(closed, _cosine_of_pairs(list(vectors)), abs_tol=1e-12)
    assert closed <= 1 + 1e-12


def test_a_sample_of_targets_is_seeded_and_near_the_whole() -> None:
    case = bundled_cases("masked")[0]
    whole, sampled = anisotropy.observe(case), anisotropy.observe(case, targets=8, seed=1)
    assert np.array_equal(
        sampled["transformed"], anisotropy.observe(case, targets=8, seed=1)["transformed"]
    )
    assert not np.array_equal(
        sampled["transformed"], anisotropy.observe(case, targets=8, seed=2)["transformed"]
    )
    a, b = (anisotropy.conclude([seen]).details["transformed"] for seen in (whole, sampled))
    assert np.abs(a - b).max() < 0.1


@pytest.mark.parametrize("name", ["masked", "causal"])
def test_outputs_of_trained_models_are_more_alike_than_their_parts(name: str) -> None:
    result = anisotropy.evaluate(bundled_cases(name))
    assert result.details["outputs"].shape == (6,)
    assert result.details["outputs"].mean() > result.details["transformed"].mean()
    assert result.interval[0] <= result.value <= result.interval[1]


def test_nothing_gives_nothing() -> None:
    assert np.isnan(anisotropy.conclude([]).value)
