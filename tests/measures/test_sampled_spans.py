"""Value Zeroing of a sample of the targets of a span, with a standard error."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import mixlens
from mixlens import InvalidInput, Lens, MixingMaps
from mixlens.measuring.measure import measure_together
from mixlens.recording import span_scores, target_pass
from tests.measures import models

TARGETS, WEIGHTS = [8, 2, 3, 5, 4, 7], [1.0, 0.25, 2.0, 0.0, 3.0, 0.5]


def one(maps: Any) -> MixingMaps:
    assert isinstance(maps, MixingMaps)
    return maps


def measured(lens: Lens, given: Any, **chosen: Any) -> MixingMaps:
    return one(lens.measure("value_zeroing", given, **{"targets": TARGETS, **chosen}))


def estimate(scores: np.ndarray, weights: np.ndarray, population: int) -> tuple[Any, Any]:
    """The weighted mean of sampled targets [..., target, source], and its standard error."""
    count = len(weights)
    mean = np.einsum("i,...ij->...j", weights, scores) / weights.sum()
    parts = weights[:, None] * (scores - mean[..., None, :]) / weights.mean()
    variance = (parts**2).sum(-2) / (count - 1) / count
    return mean, np.sqrt((1 - count / population) * variance)


@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize("per_head", [True, False])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_scores_and_errors_are_those_of_the_drawn_targets(
    weights: Any, per_head: bool, rows: bool
) -> None:
    lens, x = Lens(models.build("gpt2")), models.inputs("gpt2", 9)
    given = x if rows else lens.record(x)
    each = measured(lens, given, per_head=per_head).scores
    for seed in range(3):
        chosen: dict[str, Any] = {"span": "mean", "sample": 3, "seed": seed, "weights": weights}
        maps = measured(lens, given, per_head=per_head, **chosen)
        drawn = maps.provenance["span"]["targets"]
        assert len(set(drawn)) == 3
        assert maps.provenance["span"]["sampled_from"] == TARGETS
        places = [TARGETS.index(target) for target in drawn]
        own = np.array([1.0 if weights is None else weights[place] for place in places])
        assert (own > 0).all()
        mean, error = estimate(each[..., places, :], own, 6 if weights is None else 5)
        np.testing.assert_allclose(maps.scores[..., 0, :], mean, atol=1e-12)
        made = maps.extras["standard_error"]
        assert made.dims == ("layer", *["head"] * per_head, "target", "source")
        np.testing.assert_allclose(made.values[..., 0, :], error, atol=1e-9)
        assert error.max() > 1e-4


def test_errors_have_the_size_of_the_differences() -> None:
    """Over all samples of equal weights the mean square of both is the same."""
    lens, x = Lens(models.build("gpt2")), models.inputs("gpt2", 9)
    recorded = lens.record(x)
    exact = measured(lens, recorded, span="mean").scores
    estimates: dict[tuple[int, ...], MixingMaps] = {}
    seed, every = 0, set(itertools.combinations(sorted(TARGETS), 2))
    while set(estimates) != every:
        maps = measured(lens, recorded, span="mean", sample=2, seed=seed, layers=[1])
        estimates[tuple(sorted(maps.provenance["span"]["targets"]))] = maps
        seed += 1
        assert seed < 300
    differences = np.mean([(m.scores - exact[1:2]) ** 2 for m in estimates.values()], 0)
    errors = np.mean([m.extras["standard_error"].values ** 2 for m in estimates.values()], 0)
    np.testing.assert_allclose(errors, differences, rtol=1e-6, atol=1e-14)


@pytest.mark.parametrize("count", [5, 6, 100])
def test_a_sample_of_all_targets_is_exact(count: int) -> None:
    lens, x = Lens(models.build("gpt2")), models.inputs("gpt2", 9)
    chosen: dict[str, Any] = {"span": True, "weights": WEIGHTS}
    exact = measured(lens, x, **chosen)
    maps = measured(lens, x, **chosen, sample=count)
    np.testing.assert_allclose(maps.scores, exact.scores, atol=1e-14)
    assert maps.tokens == exact.tokens
    assert (maps.extras["standard_error"].values == 0).all()
    assert "standard_error" not in exact.extras
    np.testing.assert_allclose(maps.extras["coherence"], exact.extras["coherence"], atol=1e-12)


def test_blocks_padding_and_other_texts_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    lens, batch = Lens(models.build("gpt2")), models.padded_inputs("gpt2", [9, 6, 7])
    chosen: dict[str, Any] = {"targets": [2, 4, 5, 1, 3], "span": "mean", "sample": 4}
    chosen |= {"weights": [1, 2, 3, 4, 5], "segments": [[0, 1], [2]]}
    alone = [
        measured(lens, models.inputs("gpt2", length, seed=row), **chosen)
        for row, length in enumerate((9, 6, 7))
    ]
    for module in (span_scores, target_pass):
        monkeypatch.setattr(module, "targets_at_once", lambda *_: 3)
    batched: Any = lens.measure("value_zeroing", batch, **chosen)
    for made, expected in zip(batched, alone, strict=True):
        np.testing.assert_allclose(made.scores, expected.scores, atol=1e-12)
        errors = expected.extras["standard_error"]
        np.testing.assert_allclose(made.extras["standard_error"], errors, atol=1e-8)


def test_other_measures_of_the_call_score_all_targets() -> None:
    lens, x = Lens(models.build("gpt2")), models.inputs("gpt2", 9)
    names: dict[str, dict[str, Any]] = {"attention": {}, "value_zeroing": {"sample": 2}, "alti": {}}
    for given in (lens.record(x, targets=TARGETS), lens.record(x)):
        made = measure_together(names, given, targets=TARGETS, span="mean")
        for name in names:
            options = names[name]
            alone = one(lens.measure(name, given, targets=TARGETS, span="mean", **options))
            np.testing.assert_allclose(one(made[name]).scores, alone.scores, atol=1e-12)
            assert ("standard_error" in one(made[name]).extras) == (name == "value_zeroing")


def test_an_answer_keeps_its_label() -> None:
    recording = Lens.bundled("causal").generate("The keys to the cabinet", max_new_tokens=5)
    whole = one(mixlens.measure("value_zeroing", recording, span="mean"))
    maps = one(mixlens.measure("value_zeroing", recording, span="mean", sample=2))
    assert maps.tokens == whole.tokens
    assert len(maps.provenance["span"]["targets"]) == 2


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"span": "mean", "sample": 1}, "sample=1 is out of range"),
        ({"span": "mean", "sample": True}, "sample=True is out of range"),
        ({"span": "mean", "sample": 2.5}, "sample=2.5 is out of range"),
        ({"span": "mean", "sample": 3, "seed": -1}, "seed=-1 is out of range"),
        ({"span": "sum", "sample": 3}, "does not support span='sum'"),
        ({"sample": 3}, "sample=3 needs a span"),
    ],
)
def test_impossible_samples(chosen: dict[str, Any], words: str) -> None:
    lens, x = Lens(models.build("gpt2")), models.inputs("gpt2", 9)
    with pytest.raises(InvalidInput, match=words):
        measured(lens, x, **chosen)


def test_rollouts_and_other_measures_draw_no_sample() -> None:
    lens, x = Lens(models.build("gpt2")), models.inputs("gpt2", 9)
    with pytest.raises(InvalidInput, match="sample=3 needs a span"):
        lens.rollout("value_zeroing", x, TARGETS, span="mean", sample=3)
    with pytest.raises(InvalidInput, match="sample"):
        lens.measure("alti", x, targets=TARGETS, span="mean", sample=3)
