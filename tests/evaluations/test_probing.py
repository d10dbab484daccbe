from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

import mixlens
from mixlens.datasets.examples import Agreement, Example, Labelled
from mixlens.errors import InvalidInput
from mixlens.evaluating.case import Case
from mixlens.evaluating.online_code import (
    STRENGTHS,
    bits,
    block_ends,
    blockwise,
    label_bits,
    logistic,
    mixed_bits,
    released_costs,
)
from mixlens.evaluations import evaluations, probing


def _observations(states: np.ndarray, labels: np.ndarray) -> list[dict[str, np.ndarray]]:
    return [
        {"states": state, "label": np.array(f"class {label}")}
        for state, label in zip(states, labels, strict=True)
    ]


def _noise(
    examples: int, layers: int = 2, width: int = 12, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.normal(size=(examples, layers, width)), random.integers(0, 2, examples)


# ----------------------------------------------------------------------------------------- the code


def test_a_hand_worked_code() -> None:
    """Two labels uniformly, then 1/2, 1/4 and 1/8 of probability for what came: 1 + 1 + 1 + 2 + 3
    bits.
    """
    probabilities = np.array([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5], [0.25, 0.75], [0.875, 0.125]])
    cost = bits(probabilities, np.array([0, 1, 1, 0, 1]))
    assert np.allclose(cost, [1, 1, 1, 2, 3])


def test_a_mixture_is_the_mean_of_what_the_codes_say() -> None:
    """Two codes for two labels, 1 and 3 bits the one, 2 and 1 the other: -log2((2^-4 + 2^-3) / 2)
    in all.
    """
    bits = mixed_bits(np.array([[1.0, 3.0], [2.0, 1.0]]))
    assert math.isclose(bits.sum(), -math.log2((2**-4 + 2**-3) / 2))
    assert math.isclose(bits[0], -math.log2((2**-1 + 2**-2) / 2))
    assert math.isclose(
        mixed_bits(np.array([[1.0, 2000.0], [1.0, 1.0]])).sum(), 2 + 1
    )  # a code that fails wholly costs its share


def test_blocks_are_those_of_the_paper_as_far_as_they_hold_examples() -> None:
    assert block_ends(100_000) == (
        100,
        200,
        400,
        800,
        1600,
        3125,
        6250,
        12_500,
        25_000,
        50_000,
        100_000,
    )
    assert block_ends(64) == (4, 8, 16, 32, 64)
    with pytest.raises(InvalidInput, match="7 labelled examples are too few"):
        block_ends(7)


@given(st.integers(8, 5000))
@settings(max_examples=50, deadline=None)
def test_blocks_grow_and_end_with_the_last_example(count: int) -> None:
    ends = block_ends(count)
    assert list(ends) == sorted(set(ends))
    assert ends[0] >= 4
    assert ends[-1] == count


def test_a_probe_sees_nothing_of_its_own_block_and_later() -> None:
    states, labels = _noise(64, 1)
    labels[:2] = 0, 1
    made = blockwise(states[:, 0], labels, 2, block_ends(64), logistic)
    changed, other = states[:, 0].copy(), labels.copy()
    changed[40:] += 5.0
    other[32:] = 1 - other[32:]  # of the last block
    again = blockwise(changed, other, 2, block_ends(64), logistic)
    assert np.array_equal(made[:, :40], again[:, :40])
    assert not np.allclose(made[:, 40:], again[:, 40:])
    assert np.allclose(made[:, :4], 0.5)
    assert np.allclose(made.sum(-1), 1)


def test_fewer_examples_than_dimensions_give_the_same_probe() -> None:
    """The rotation into the span of the training states changes no prediction."""
    from sklearn.linear_model import LogisticRegression

    states, labels = _noise(30, 1, 50)
    known, asked = states[:20, 0], states[20:, 0]
    scale = known.std(0) * math.sqrt(50)
    slow = LogisticRegression(C=STRENGTHS[1], max_iter=5000, tol=1e-10).fit(
        (known - known.mean(0)) / scale, labels[:20]
    )
    assert np.allclose(
        logistic(known, labels[:20], asked, 2)[1],
        slow.predict_proba((asked - known.mean(0)) / scale),
        atol=2e-3,
    )


def test_a_new_class_is_encoded_uniformly() -> None:
    labels = np.array([0] * 8 + [1] * 8)
    made = blockwise(np.zeros((16, 3)), labels, 2, block_ends(16), logistic)
    assert np.allclose(made, 0.5)


def test_counting_labels_saves_what_unequal_classes_allow() -> None:
    assert math.isclose(label_bits(np.array([0, 0, 1]), 2), -math.log2(0.5 * 0.75 * (0.5 / 3)))


# -------------------------------------------------------------------------------------- conclusions


@pytest.mark.parametrize("seed", range(5))
def test_random_labels_compress_to_one(seed: int) -> None:
    result = probing.conclude(_observations(*_noise(300, seed=seed)), seed=seed)
    lengths = result.details["bits"]
    assert (lengths <= 300 + math.log2(len(STRENGTHS) + 1) + 1e-6).all()
    assert (lengths > 300 - 12).all()  # chance gains 12 bits once in 4096 times
    assert result.chance == 1.0


def test_separable_labels_compress_well_where_they_are() -> None:
    states, labels = _noise(400, 3)
    states[:, 2, 0] += 8 * labels
    result = probing.conclude(_observations(states, labels))
    assert result.details["layers"][2] > 5
    assert (result.details["layers"][:2] < 1.05).all()
    assert math.isclose(result.value, result.details["layers"][1:].mean())
    assert result.interval[0] < result.value < result.interval[1]
    assert math.isclose(result.per_example.sum(), 400 - result.details["bits"][1:].mean())


def test_three_classes_cost_log2_of_three() -> None:
    random = np.random.default_rng(1)
    result = probing.conclude(
        _observations(random.normal(size=(120, 2, 6)), random.integers(0, 3, 120))
    )
    assert math.isclose(result.details["uniform_bits"], 120 * math.log2(3))
    assert np.allclose(result.details["layers"], 1, atol=0.08)


def test_unequal_classes_show_in_the_code_that_sees_no_states() -> None:
    states, _ = _noise(200)
    labels = (np.arange(200) % 10 == 0).astype(int)
    assert probing.conclude(_observations(states, labels)).details["labels_only"] > 1.7


def test_order_does_not_matter_and_seeds_do() -> None:
    states, labels = _noise(80)
    states[:, 1, 0] += 2 * labels
    seen = _observations(states, labels)
    first, backwards = probing.conclude(seen, seed=3), probing.conclude(seen[::-1], seed=3)
    assert np.array_equal(first.details["layers"], backwards.details["layers"])
    assert np.array_equal(first.per_example, backwards.per_example[::-1])
    assert not np.array_equal(
        first.details["layers"], probing.conclude(seen, seed=4).details["layers"]
    )


def test_misuse_is_named() -> None:
    states, labels = _noise(20)
    with pytest.raises(InvalidInput, match="at least two labels"):
        probing.conclude(_observations(states, labels * 0))
    with pytest.raises(InvalidInput, match="Unknown variant 'other'"):
        probing.conclude(_observations(states, labels), variant="other")


# --------------------------------------------------------------------------------- the authors' way


def test_the_released_code_runs_from_144_to_319() -> None:
    labels = np.random.default_rng(0).integers(0, 2, 10_000)
    chance = released_costs(np.full((10_000, 2), 0.5), labels, 80)
    certain = released_costs(np.eye(2)[labels], labels, 80)
    assert math.isclose(chance[80:].mean(), math.log(2))
    assert chance[:80].sum() == certain[:80].sum() == 80
    assert round(1 / chance[80:].mean(), 2) == 1.44
    assert round(1 / certain[80:].mean(), 2) == 3.19


def test_the_released_variant_stays_in_its_range() -> None:
    states, labels = _noise(600, 2)
    states[:, 1] += 4 * labels[:, None] - 2
    result = probing.conclude(_observations(states, labels), variant="mohebbi2023")
    again = probing.conclude(_observations(states, labels), variant="mohebbi2023")
    assert np.array_equal(result.details["layers"], again.details["layers"])
    assert math.isclose(result.chance or 0, 1 / math.log(2))
    assert 1.3 < result.details["layers"][0] < 1.5
    assert 1.55 < result.details["layers"][1] < 3.19


# ------------------------------------------------------------------------------------------- models


@pytest.fixture(scope="module")
def lens() -> mixlens.Lens:
    return mixlens.Lens.bundled("causal")


def _agreements(count: int) -> list[Agreement]:
    nouns = ("dog", "cat", "boy", "girl", "house", "car", "teacher", "friend")
    examples = []
    for i in range(count):
        plural, noun, place = i % 2 == 1, nouns[(i // 2) % 8], ("here", "old", "new")[i // 16 % 3]
        start = f"The {noun}{'s' * plural} "
        text = start + ("are" if plural else "is") + f" {place}."
        examples.append(
            Agreement(
                name=str(i),
                text=text,
                place=(len(start), len(start) + (3 if plural else 2)),
                foil="is" if plural else "are",
                cues=((4, len(start) - 1),),
                label="plural" if plural else "singular",
            )
        )
    return examples


def test_states_are_those_of_the_target(lens: mixlens.Lens) -> None:
    case = Case(lens, _agreements(2)[1])
    seen = probing.observe(case)
    layers = case.recording.layers()
    assert seen["states"].shape == (len(layers) + 1, layers[0].input.shape[-1])
    assert str(seen["label"]) == "plural"
    assert np.array_equal(seen["states"][0], layers[0].input[0, -1].numpy())
    assert np.array_equal(seen["states"][2], layers[1].output[0, -1].numpy())
    cue = probing.observe(case, of="cue")["states"]
    assert np.allclose(
        cue[1], np.mean([layers[0].output[0, token].numpy() for token in case.cues[0]], 0)
    )


def test_number_is_read_off_a_trained_model(lens: mixlens.Lens) -> None:
    result = probing.evaluate(Case(lens, example) for example in _agreements(48))
    assert result.details["layers"].shape == (7,)
    assert result.value > 1.2
    assert evaluations()["probing"].of == "model"


def test_examples_without_a_label_raise(lens: mixlens.Lens) -> None:
    with pytest.raises(InvalidInput, match="no label"):
        probing.observe(Case(lens, Example(name="a", text="A cat sat.")))
    labelled = Case(lens, Labelled(name="a", text="A cat sat.", label="1"))
    assert str(probing.observe(labelled)["label"]) == "1"
    with pytest.raises(InvalidInput, match="Choose target or cue"):
        probing.observe(labelled, of="verb")


def test_agreement_across_layers_is_scipys() -> None:
    random = np.random.default_rng(2)
    compression, alignment = random.normal(size=7), random.normal(size=6)
    assert math.isclose(
        probing.agreement_with(compression, alignment),
        spearmanr(compression[1:], alignment).statistic,
    )
    assert math.isclose(
        probing.agreement_with(compression[1:], alignment),
        spearmanr(compression[1:], alignment).statistic,
    )
    with pytest.raises(InvalidInput, match="7 layers of compression do not match 4"):
        probing.agreement_with(compression, alignment[:4])
