from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixlens.contracts import Facts
from mixlens.errors import InvalidInput
from mixlens.maps.mixing_maps import MixingMaps
from mixlens.maps.rollout import rollout, row_normalised
from tests import reference


def stochastic(layers: int, tokens: int, seed: int, causal: bool = False) -> np.ndarray:
    maps = np.random.default_rng(seed).random((layers, tokens, tokens)) + 1e-3
    return row_normalised(np.tril(maps) if causal else maps)


def test_product_runs_from_the_last_layer_down_to_the_input() -> None:
    first = np.array([[1.0, 0.0], [1.0, 0.0]])  # everything is token 0 after the first layer
    second = np.array([[0.0, 1.0], [0.0, 1.0]])  # everything reads token 1 of the first layer
    product = rollout(np.stack([first, second]))
    np.testing.assert_array_equal(product[0], first)
    np.testing.assert_array_equal(
        product[1], [[1, 0], [1, 0]]
    )  # the other order would give [[0, 1], [0, 1]]


def test_attention_rolls_out_as_its_authors_program_does() -> None:
    attention = stochastic(4, 5, 0)
    augmented = attention + np.eye(5)
    augmented /= augmented.sum(-1, keepdims=True)
    expected = [augmented[0]]
    for layer in augmented[1:]:
        expected.append(layer @ expected[-1])
    maps = MixingMaps.of(attention, measure="attention", rollout_residual=0.5).rollout()
    np.testing.assert_allclose(maps.scores, expected, rtol=1e-13)
    assert maps.facts.residual_included
    assert maps.facts.rows_sum_to_one


def test_rows_below_one_are_divided_after_the_mixing() -> None:
    """A sink took half of the attention: the residual stream then weighs twice as much as what was
    attended to.
    """
    maps = MixingMaps.of([[[0.0, 0.5], [0.5, 0.0]]], rollout_residual=0.5).rollout()
    np.testing.assert_allclose(maps.scores[0], [[2 / 3, 1 / 3], [1 / 3, 2 / 3]])


def test_other_measures_are_normalised_and_hold_no_identity() -> None:
    raw = np.random.default_rng(1).random((3, 4, 4))
    product = MixingMaps.of(raw).rollout().scores
    shares = raw / raw.sum(-1, keepdims=True)
    np.testing.assert_allclose(product[2], shares[2] @ shares[1] @ shares[0])


def test_globenc_multiplies_what_it_measured() -> None:
    raw = np.random.default_rng(1).random((3, 4, 4))
    maps = MixingMaps.of(raw, rollout_normalised=False)
    np.testing.assert_allclose(maps.rollout().scores[2], raw[2] @ raw[1] @ raw[0])
    assert not maps.rollout().facts.rows_sum_to_one
    assert maps.rollout(normalise=True).facts.rows_sum_to_one


def test_a_residual_of_ones_own_does_not_depend_on_the_unit_of_the_scores() -> None:
    raw = np.random.default_rng(2).random((3, 4, 4))
    np.testing.assert_allclose(
        MixingMaps.of(raw).rollout(residual=0.3).scores,
        MixingMaps.of(1000 * raw).rollout(residual=0.3).scores,
    )
    shares = raw / raw.sum(-1, keepdims=True)
    np.testing.assert_allclose(
        MixingMaps.of(raw).rollout(residual=0.3).scores[0], 0.7 * shares[0] + 0.3 * np.eye(4)
    )


def test_residual_zero_turns_the_measures_own_off() -> None:
    attention = stochastic(2, 3, 5)
    maps = MixingMaps.of(attention, rollout_residual=0.5)
    np.testing.assert_allclose(maps.rollout(residual=0).scores[1], attention[1] @ attention[0])
    with pytest.raises(InvalidInput, match=r"in \[0, 1\]"):
        maps.rollout(residual=1.5)


@settings(deadline=None)
@given(
    layers=st.integers(1, 6),
    tokens=st.integers(1, 8),
    seed=st.integers(0, 1000),
    causal=st.booleans(),
    residual=st.floats(0, 1),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_stochastic_stays_stochastic_and_causal_stays_causal(
    layers: int, tokens: int, seed: int, causal: bool, residual: float, dtype: type
) -> None:
    maps = MixingMaps.of(stochastic(layers, tokens, seed, causal).astype(dtype)).rollout(
        residual=residual
    )
    assert maps.scores.dtype == dtype
    np.testing.assert_allclose(maps.scores.sum(-1), 1, atol=1e-6)
    assert maps.scores.min() >= 0
    assert maps.facts.rows_sum_to_one
    if causal:
        assert not np.triu(maps.scores, 1).any()


def test_a_row_of_zeros_passes_on_what_was_there() -> None:
    maps = MixingMaps.of([[[0.0, 0.0], [1.0, 3.0]]] * 2).rollout()
    np.testing.assert_allclose(maps.scores[1], np.array([[1, 0], [0.4375, 0.5625]]))
    assert maps.facts.rows_sum_to_one


def test_signed_maps() -> None:
    raw = np.random.default_rng(3).standard_normal((2, 3, 3))
    maps = MixingMaps.of(raw, facts=Facts(signed=True))
    with pytest.raises(InvalidInput, match="scores are signed"):
        maps.rollout()
    np.testing.assert_allclose(maps.rollout(normalise=False).scores[1], raw[1] @ raw[0])
    sizes = maps.normalised(absolute=True).rollout().facts
    assert (sizes.signed, sizes.rows_sum_to_one) == (False, True)
    whole = MixingMaps.of(
        raw / raw.sum(-1, keepdims=True), facts=Facts(signed=True, rows_sum_to_one=True)
    )
    np.testing.assert_allclose(whole.rollout().scores.sum(-1), 1)


def test_maps_that_do_not_join_are_refused_with_the_reason() -> None:
    maps = MixingMaps.of(stochastic(3, 4, 0), tokens=list("abcd"))
    with pytest.raises(InvalidInput, match="only some targets"):
        maps.at(targets=[1, 2]).rollout()
    with pytest.raises(InvalidInput, match="every layer from 0 on"):
        maps.at(layers=[1, 2]).rollout()
    assert maps.at(layers=[0, 1]).rollout().layers == (0, 1)
    with pytest.raises(InvalidInput, match="different tokens"):
        MixingMaps.of(np.ones((2, 3, 4)), tokens=list("abc"), source_tokens=list("wxyz")).rollout()
    # A translation that repeats its source is still cross-attention.
    with pytest.raises(InvalidInput, match="different tokens"):
        MixingMaps.of(np.ones((2, 3, 3)), facts=Facts(same_tokens=False)).rollout()
    with pytest.raises(InvalidInput, match="heads"):
        MixingMaps.of(np.ones((2, 5, 3, 3))).rollout()
    with pytest.raises(InvalidInput, match="already aggregated"):
        maps.rollout().rollout()


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("measure", "key"),
    [
        ("value_zeroing", "value_zeroing.rollout"),
        ("alti", "alti.rollout"),
        ("globenc", "globenc.rollout_unnormalised"),
    ],
)
def test_against_the_authors_code(measure: str, key: str) -> None:
    numbers = reference.arrays("four_papers/numbers.npz")
    np.testing.assert_allclose(
        MixingMaps.of(numbers[measure], measure=measure).rollout().scores, numbers[key], atol=1e-12
    )


def test_attention_against_the_authors_code() -> None:
    numbers = reference.arrays("four_papers/numbers.npz")
    maps = MixingMaps.of(numbers["attention"], measure="attention").heads("mean")
    np.testing.assert_allclose(maps.rollout().scores, numbers["abnar.rollout_residual"], atol=1e-12)
    np.testing.assert_allclose(
        maps.rollout(residual=0).scores, numbers["abnar.rollout_nores"], atol=1e-12
    )
