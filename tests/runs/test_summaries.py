"""Summaries by the equations, with loops; aggregates that merge in any order."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from mixlens import Lens, MixingMaps
from mixlens.runs.aggregates import BINS, UNIT, Aggregates
from mixlens.runs.summaries import shares_of, summarise

TEXTS = ["The old dog .", "A cat near the house saw a bird , and ran", "Keys !", "the the the dog"]


@pytest.fixture(scope="module")
def maps() -> list[MixingMaps]:
    return list(Lens.bundled().measure("alti", TEXTS))


def test_a_summary_is_what_its_equations_say(maps: list[MixingMaps]) -> None:
    one = maps[1].at(targets=[2, 5])
    summary = summarise([one], shares_of(one.scores[None]))
    for layer in range(len(one.layers)):
        own = {key: value[0, layer] for key, value in summary.items() if value is not None}
        for row, target in enumerate((2, 5)):
            sizes = [abs(float(score)) for score in one.scores[layer, row]]
            p = [size / sum(sizes) for size in sizes]
            order = sorted(range(len(p)), key=lambda j: (-p[j], j))[:10]
            assert own["top_sources"][row].tolist() == order
            np.testing.assert_allclose(own["top_shares"][row], [p[j] for j in order], rtol=1e-6)
            expected = {
                "entropy": -sum(x * math.log(x) for x in p if x > 0),
                "own_share": p[target],
                "special_share": p[0] + p[-1],
                "mean_distance": sum(x * abs(j - target) for j, x in enumerate(p)),
            }
            for key, value in expected.items():
                assert own[key][row] == pytest.approx(value, rel=1e-5), key


def test_a_row_of_zeros_has_no_shares(maps: list[MixingMaps]) -> None:
    assert np.isnan(shares_of(np.zeros((1, 1, 3)))).all()


@settings(max_examples=30, deadline=None)
@given(some.lists(some.integers(0, 3), min_size=1, max_size=8), some.integers(0, 10**6))
def test_aggregates_merge_in_any_order(maps: list[MixingMaps], texts: list[int], seed: int) -> None:
    def of(places: list[int]) -> Aggregates:
        aggregates = Aggregates()
        for place in places:
            aggregates.add([maps[place]], shares_of(maps[place].scores[None]), [f"text {place}"])
        return aggregates

    whole, draw = of(texts).to_dict(), random.Random(seed)
    shuffled = draw.sample(texts, len(texts))
    cuts = sorted(draw.randint(0, len(texts)) for _ in range(2))
    parts = [shuffled[a:b] for a, b in zip([0, *cuts], [*cuts, len(texts)], strict=True)]
    merged = Aggregates()
    for part in draw.sample(parts, 3):
        merged.merge(of(part).to_dict())
    assert merged.to_dict() == whole
    assert merged.conclude() == of(texts).conclude()


def test_an_aggregate_of_one_text_by_hand(maps: list[MixingMaps]) -> None:
    one, shares = maps[0], shares_of(maps[0].scores)
    aggregates = Aggregates()
    aggregates.add([one], shares[None], ["a"])
    concluded = aggregates.conclude()["alti"]
    n = len(one.source_row)
    near = [shares[0, i, j] for i in range(n) for j in range(n) if abs(i - j) == 1]
    assert concluded["mean_share_by_distance"][0][1] == pytest.approx(np.mean(near), rel=1e-6)
    special = (shares[0, :, 0] + shares[0, :, -1]).mean()
    assert concluded["share_by_category"]["special"][0] == pytest.approx(special, rel=1e-6)
    median = np.quantile(shares[0], 0.5)
    assert abs(concluded["share_quantiles"][0]["0.5"] - median) <= 1.5 / BINS
    others = shares[0] - 2 * np.eye(n)
    target, source = np.unravel_index(others.argmax(), others.shape)
    assert concluded["contexts"][0][0] == [
        pytest.approx(others.max(), abs=1 / UNIT),
        "a",
        target,
        source,
    ]
