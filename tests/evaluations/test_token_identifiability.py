from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from mixlens.errors import InvalidInput
from mixlens.evaluations import token_identifiability
from mixlens.evaluations.token_identifiability import splits
from mixlens.maps.token_identifiability import ProbeTraining
from tests.evaluations.model_cases import bundled_cases, random_case


def _texts(
    count: int = 12, layers: int = 3, width: int = 8, seed: int = 0, noise: float = 0.1
) -> list[dict[str, np.ndarray]]:
    """Layers that turn the input a little more each, with noise."""
    random = np.random.default_rng(seed)
    turn = np.linalg.qr(random.normal(size=(width, width)))[0]
    texts = []
    for _ in range(count):
        states = [random.normal(size=(random.integers(4, 9), width))]
        for layer in range(1, layers):
            states.append(states[-1] @ turn + noise * layer * random.normal(size=states[-1].shape))
        texts.append({"states": np.stack(states), "layer": np.arange(layers)})
    return texts


def _naive_rate(
    texts: list[dict[str, np.ndarray]], layer: int, offset: int, metric: str, single: bool = False
) -> float:
    hits = []
    for text in texts:
        states = text["states"]
        candidates = states[layer - 1 if single else 0]
        for i, state in enumerate(states[layer]):
            if 0 <= i + offset < len(candidates):
                hits.append(
                    cdist(state[None], candidates, cast(Any, metric))[0].argmin() == i + offset
                )
    return float(np.mean(hits))


@pytest.mark.parametrize("metric", ["cosine", "l2"])
@pytest.mark.parametrize("offset", [0, 1, -2])
def test_the_naive_rate_with_loops(metric: str, offset: int) -> None:
    texts = _texts()
    result = token_identifiability.conclude(texts, probe="naive", metric=metric, offset=offset)
    slow = [
        _naive_rate(texts, layer, offset, "cosine" if metric == "cosine" else "euclidean")
        for layer in range(3)
    ]
    assert np.allclose(result.details["layers"], slow)
    assert math.isclose(result.value, slow[-1])


def test_from_each_layer_to_its_own_input() -> None:
    texts = _texts()
    result = token_identifiability.conclude(texts, probe="naive", single=True)
    assert np.allclose(
        result.details["layers"],
        [_naive_rate(texts, layer, 0, "cosine", single=True) for layer in (1, 2)],
    )
    assert result.details["layer"].tolist() == [1, 2]
    turned = token_identifiability.conclude(texts, probe="ridge", single=True, folds=4)
    assert (turned.details["layers"] > result.details["layers"] + 0.2).all()


def test_a_probe_of_one_layer_on_all_others() -> None:
    texts = _texts()
    result = token_identifiability.conclude(texts, across=True, folds=4)
    cross = result.details["cross"]
    assert np.allclose(np.diag(cross), result.details["layers"])
    assert cross[1, 1] > cross[1, [0, 2]].max() + 0.2
    naive = token_identifiability.conclude(texts, across=True, probe="naive").details
    assert np.allclose(naive["cross"], naive["layers"][None])


def test_the_input_itself_is_identified() -> None:
    for name in ("masked", "causal"):
        result = token_identifiability.evaluate(bundled_cases(name), probe="naive", folds=1)
        assert result.details["layers"][0] == 1
        assert result.details["layers"].shape == (7,)
        assert (np.diff(result.details["layers"]) < 0.05).all()


def test_pooled_over_tokens_and_by_sentence() -> None:
    texts = _texts()
    result = token_identifiability.conclude(texts, folds=3, seed=1)
    sizes = np.array([text["states"].shape[1] for text in texts])
    assert math.isclose(result.value, (result.per_example * sizes).sum() / sizes.sum())
    assert result.details["tokens"] == sizes.sum()
    assert math.isclose(result.details["chance"], len(sizes) / sizes.sum())
    assert result.interval[0] <= result.value <= result.interval[1]


def test_one_split_tests_some_sentences_only() -> None:
    result = token_identifiability.conclude(_texts(20), folds=1)
    assert (~np.isnan(result.per_example)).sum() == 3


def test_order_does_not_matter_and_seeds_do() -> None:
    texts = _texts(noise=0.8)
    first, backwards = (
        token_identifiability.conclude(ordered, folds=2) for ordered in (texts, texts[::-1])
    )
    assert np.array_equal(first.per_example, backwards.per_example[::-1])
    assert np.array_equal(first.details["layers"], backwards.details["layers"])
    other = token_identifiability.conclude(texts, folds=2, seed=5)
    assert not np.array_equal(first.per_example, other.per_example)


def test_no_token_of_a_tested_sentence_trains_its_probe() -> None:
    """Each sentence is turned by its own map: only a probe that saw the sentence could undo it."""
    random = np.random.default_rng(3)
    texts = []
    for _ in range(30):
        inputs = random.normal(size=(6, 8))
        texts.append(
            {
                "states": np.stack([inputs, inputs @ np.linalg.qr(random.normal(size=(8, 8)))[0]]),
                "layer": np.arange(2),
            }
        )
    result = token_identifiability.conclude(texts, folds=5)
    assert result.value < 0.35
    assert result.details["train_layers"][1] > result.value


def test_trained_probes_take_the_same_way() -> None:
    texts = _texts(20, layers=2)
    plan = ProbeTraining(rate=1e-2, most_passes=60, hidden=32)
    for probe in ("linear", "mlp"):
        result = token_identifiability.conclude(texts, probe=probe, folds=1, training=plan)
        assert result.value > 0.6
        assert (result.details["passes"] > 1).all()


@given(st.integers(3, 200), st.integers(1, 10))
@settings(max_examples=60, deadline=None)
def test_splits_part_the_sentences(count: int, folds: int) -> None:
    largest = max(1, round(0.15 * count)) if folds == 1 else -(-count // folds)
    if count < folds or count - largest < 2:
        with pytest.raises(InvalidInput, match="cannot be split"):
            splits(count, folds)
        return
    folds_of_it = splits(count, folds)
    for parts in folds_of_it:
        assert sorted(np.concatenate(parts).tolist()) == list(range(count))
        assert all(len(part) for part in parts)
    tested = np.concatenate([test for _, _, test in folds_of_it])
    assert len(np.unique(tested)) == len(tested)
    assert folds == 1 or len(tested) == count


def test_splits_are_those_of_the_paper() -> None:
    train, apart, test = splits(1000)[0]
    assert (len(train), len(apart), len(test)) == (700, 150, 150)
    assert len(splits(1000, share=0.5)[0][0]) == 350


def test_some_layers_only() -> None:
    case = random_case("bert", 6)
    seen = token_identifiability.observe(case, layers=[2])
    whole = token_identifiability.observe(case)
    assert seen["layer"].tolist() == [0, 2]
    assert np.array_equal(seen["states"], whole["states"][[0, 2]])
    assert np.array_equal(whole["states"][0], case.recording.layers()[0].input[0].numpy())
    assert np.array_equal(whole["states"][2], case.recording.layers()[1].output[0].numpy())
    with pytest.raises(InvalidInput, match="are out of range"):
        token_identifiability.observe(case, layers=[3])
    with pytest.raises(InvalidInput, match="needs all layers"):
        token_identifiability.conclude([seen] * 3, single=True)


def test_texts_too_short_for_an_offset_have_no_number() -> None:
    texts = [
        {"states": text["states"][:, :1] if i == 0 else text["states"], "layer": text["layer"]}
        for i, text in enumerate(_texts())
    ]
    result = token_identifiability.conclude(texts, probe="naive", offset=1)
    assert np.isnan(result.per_example[0])
    assert not np.isnan(result.per_example[1:]).any()


def test_misuse_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"share=1\.5 are out of range"):
        splits(9, share=1.5)
    with pytest.raises(InvalidInput, match="single and across"):
        token_identifiability.conclude(_texts(), single=True, across=True)
    short = [{"states": text["states"][:, :1], "layer": text["layer"]} for text in _texts()]
    with pytest.raises(InvalidInput, match="token at offset 1"):
        token_identifiability.conclude(short, offset=1)
    assert np.isnan(token_identifiability.conclude(short, offset=1, probe="naive").value)
    with pytest.raises(InvalidInput, match="No texts were passed"):
        token_identifiability.conclude([])
    with pytest.raises(InvalidInput, match="Unknown probe 'svm'"):
        token_identifiability.conclude(_texts(), probe="svm")
