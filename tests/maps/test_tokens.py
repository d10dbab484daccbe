from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from mixlens.errors import InvalidInput
from mixlens.maps.token_identifiability import Pairs, ProbeTraining, fit_probe, match_nearest


def _pairs(count: int, width: int = 6, seed: int = 0, noise: float = 0.0) -> Pairs:
    """Inputs that are a fixed linear map of the states, with noise."""
    fixed = np.random.default_rng(99).normal(size=(width, width))
    random = np.random.default_rng(seed)
    states = random.normal(size=(count, width))
    return Pairs(states, states @ fixed + noise * random.normal(size=(count, width)))


@given(st.integers(1, 8), st.integers(1, 8), st.sampled_from(["cosine", "l2"]), st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_neighbours_are_scipys(tokens: int, candidates: int, metric: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    answers, inputs = random.normal(size=(tokens, 4)), random.normal(size=(candidates, 4))
    wanted = random.integers(0, candidates, tokens)
    nearest = cdist(answers, inputs, "cosine" if metric == "cosine" else "euclidean").argmin(1)
    assert np.array_equal(match_nearest(answers, inputs, wanted, metric), nearest == wanted)


def test_metrics_differ_where_lengths_do() -> None:
    inputs, answer = np.array([[1.0, 0.2], [10.0, 0.0]]), np.array([[1.0, 0.0]])
    assert match_nearest(answer, inputs, np.array([1]), "cosine").all()
    assert match_nearest(answer, inputs, np.array([0]), "l2").all()


def test_equal_inputs_are_one_answer() -> None:
    inputs = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert match_nearest(inputs, inputs, np.arange(3)).all()
    assert not match_nearest(inputs[:1], inputs, np.array([2])).any()


@pytest.mark.parametrize("metric", ["cosine", "l2"])
@pytest.mark.parametrize("probe", ["ridge", "linear", "mlp"])
def test_probes_learn_a_linear_map(probe: str, metric: str) -> None:
    train, apart, test = _pairs(400), _pairs(60, seed=1), _pairs(60, seed=2)
    made, passes = fit_probe(
        probe, train, apart, metric, ProbeTraining(rate=1e-2, most_passes=150, hidden=64)
    )
    assert match_nearest(made(test.states), test.inputs, np.arange(60), metric).mean() > 0.75
    assert (passes > 0) == (probe != "ridge")
    naive, _ = fit_probe("naive", train, apart, metric)
    assert match_nearest(naive(test.states), test.inputs, np.arange(60), metric).mean() < 0.3


def test_ridge_is_the_least_squares_solution_where_data_are_clean() -> None:
    train, apart = _pairs(50, noise=0.1), _pairs(40, seed=1)
    made, _ = fit_probe("ridge", train, apart, "l2")
    slow = np.linalg.lstsq(train.states, train.inputs, rcond=None)[0]
    assert np.allclose(made(apart.states), apart.states @ slow, atol=1e-2)


def test_ridge_holds_back_where_data_are_few() -> None:
    """As many tokens as dimensions, much noise: the solution without strength is far worse on other
    data.
    """
    train, apart, test = _pairs(12, 12, noise=3.0), _pairs(200, 12, 1), _pairs(200, 12, 2)
    made, _ = fit_probe("ridge", train, apart, "l2")
    loose = np.linalg.lstsq(train.states, train.inputs, rcond=None)[0]
    errors = [
        ((answers - test.inputs) ** 2).mean()
        for answers in (made(test.states), test.states @ loose)
    ]
    assert errors[0] < 0.9 * errors[1]


def test_training_stops_when_nothing_gets_better_and_keeps_the_best() -> None:
    """Labels without pattern: after `patience` passes past its best, training ends, and the best
    map is what is returned.
    """
    random = np.random.default_rng(0)
    train, apart = (
        Pairs(random.normal(size=(40, 5)), random.normal(size=(40, 5))) for _ in range(2)
    )
    plan = ProbeTraining(rate=1e-2, patience=5, most_passes=500)
    made, passes = fit_probe("linear", train, apart, "l2", plan)
    assert 5 < passes < 500
    early, _ = fit_probe(
        "linear", train, apart, "l2", ProbeTraining(rate=1e-2, patience=5, most_passes=passes - 5)
    )
    assert np.array_equal(made(apart.states), early(apart.states))


def test_seeds_decide_and_leave_torch_alone() -> None:
    train, apart = _pairs(40), _pairs(20, seed=1)
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    runs = [
        fit_probe("linear", train, apart, "cosine", ProbeTraining(most_passes=3, seed=seed))[0](
            apart.states
        )
        for seed in (0, 0, 1)
    ]
    assert torch.equal(before, torch.random.get_rng_state())
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_the_linear_probe_has_no_bias() -> None:
    train, apart = _pairs(40), _pairs(20, seed=1)
    for probe in ("linear", "ridge"):
        made, _ = fit_probe(probe, train, apart, "l2", ProbeTraining(most_passes=2))
        assert np.allclose(made(np.zeros((1, 6))), 0)


def test_misuse_is_named() -> None:
    with pytest.raises(InvalidInput, match="Unknown probe 'svm'"):
        fit_probe("svm", _pairs(4), _pairs(4))
    with pytest.raises(InvalidInput, match="Unknown metric 'l1'"):
        match_nearest(np.zeros((1, 2)), np.zeros((1, 2)), np.zeros(1, int), "l1")
