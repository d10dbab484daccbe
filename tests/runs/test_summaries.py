"""Summaries by the equations, with loops; aggregates that merge in any order."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some

from mixlens import Lens
from mixlens.datasets.rows import TextRecord
from mixlens.measuring.measure import measure_batches
from mixlens.runs import summaries as summarising
from mixlens.runs.aggregates import (
    UNIT,
    Aggregates,
    BatchSums,
    quantiles,
    sketch,
    totals,
    totals_by_text,
)
from mixlens.runs.batch import tag_classes, token_tags
from mixlens.runs.mixtures import Mixtures
from mixlens.runs.summaries import Summaries, shares_of

TEXTS = ["The old dog .", "A cat near the house saw a bird , and ran", "Keys !", "the the the dog"]
TAGS = [text.upper().split() for text in TEXTS]  # each word is a class of its own


@cache
def lens() -> Lens:
    return Lens.bundled()


@cache
def mixtures(texts: tuple[int, ...], measure: str = "alti", **chosen: Any) -> Mixtures:
    recording = lens().record([TEXTS[text] for text in texts])
    return Mixtures.of_batch(measure_batches({measure: {}}, recording, **chosen)[measure])


def aggregate(texts: Sequence[int], **chosen: Any) -> Aggregates:
    """One batch; each text is named by its number."""
    batch = mixtures(tuple(texts), **chosen)
    tagged = [
        TextRecord(line=text, id=str(text), text=TEXTS[text], tags=tuple(TAGS[text]))
        for text in texts
    ]
    aggregates, sums = Aggregates(), BatchSums(batch, tag_classes(batch, tagged))
    for part in shares_of(batch):
        sums.add(part)
    made = {key: values.numpy() for key, values in sums.sums().items()}
    aggregates.of("m", batch).add(sums, made, [f"text {text}" for text in texts])
    return aggregates


def test_a_summary_is_what_its_equations_say() -> None:
    batch = mixtures((1, 0, 2), targets=(2, 1))
    summaries = Summaries(batch)
    for part in shares_of(batch):
        summaries.add(part)
    summary = {key: values.numpy() for key, values in summaries.columns.items()}
    for text, place in enumerate((1, 0, 2)):
        one: Any = lens().measure("alti", TEXTS[place], targets=[2, 1])
        count = len(one.source_row)
        for layer in range(len(one.layers)):
            own = {key: value[text, layer] for key, value in summary.items()}
            for row, target in enumerate((2, 1)):
                sizes = [abs(float(score)) for score in one.scores[layer, row]]
                p = [size / sum(sizes) for size in sizes]
                order = sorted(range(len(p)), key=lambda j: (-p[j], j))[:10]
                kept = min(10, count)
                assert own["top_sources"][row].tolist()[:kept] == order
                tops = own["top_shares"][row][:kept]
                np.testing.assert_allclose(tops, [p[j] for j in order], rtol=1e-4)
                expected = {
                    "entropy": -sum(x * math.log(x) for x in p if x > 0),
                    "own_share": p[target],
                    "special_share": p[0] + p[-1],
                    "mean_distance": sum(x * abs(j - target) for j, x in enumerate(p)),
                }
                for key, value in expected.items():
                    assert own[key][row] == pytest.approx(value, rel=1e-4), key


def test_a_batch_cut_into_parts_gives_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    def numbers() -> dict[str, Any]:
        batch = mixtures((1, 0, 2))
        summaries, sums = Summaries(batch), BatchSums(batch, None)
        for part in shares_of(batch):
            summaries.add(part)
            sums.add(part)
        return summaries.columns | sums.sums()

    whole = numbers()
    for most in (1, 2 * 12 * 12, 7 * 12 * 12):  # a text at a time, two, or two layers of all three
        monkeypatch.setitem(summarising._NUMBERS, "cpu", most)
        for key, values in numbers().items():
            torch.testing.assert_close(values, whole[key], rtol=0, atol=0, equal_nan=True)


def test_totals_are_the_same_by_text_as_by_group() -> None:
    places = torch.randint(0, 5, (3, 4, 50))
    weights = torch.randint(0, 1000, places.shape).double()
    for own in (None, weights):
        assert torch.equal(totals(places, 5, own), totals_by_text(places, 5, own))


def test_equal_shares_are_in_the_order_of_positions_and_zeros_have_none() -> None:
    batch = mixtures((0,), "attention")
    even = Mixtures(**{**vars(batch), "values": torch.ones_like(batch.values)})
    empty = Mixtures(**{**vars(batch), "values": torch.zeros_like(batch.values)})
    for case, tops, entropy in ((even, 1 / 6, math.log(6)), (empty, math.nan, math.nan)):
        summaries = Summaries(case)
        for part in shares_of(case):
            summaries.add(part)
        summary = {key: values.numpy() for key, values in summaries.columns.items()}
        assert (summary["top_sources"] == np.arange(6)).all()
        np.testing.assert_allclose(summary["top_shares"], tops, rtol=1e-6)
        np.testing.assert_allclose(summary["entropy"], entropy, rtol=1e-6)


@settings(max_examples=25, deadline=None)
@given(some.lists(some.integers(0, 3), min_size=1, max_size=6), some.integers(0, 10**6))
def test_parts_in_any_order_give_the_same_aggregates(texts: list[int], seed: int) -> None:
    """Each text by itself: padding would round differently, which a plan of batches rules out."""

    def of(places: Sequence[int]) -> Aggregates:
        aggregates = Aggregates()
        for place in places:
            aggregates.merge(aggregate([place], measure="attention", per_head=True).to_dict())
        return aggregates

    draw = random.Random(seed)
    shuffled = draw.sample(texts, len(texts))
    cuts = sorted(draw.randint(0, len(texts)) for _ in range(2))
    parts = [shuffled[a:b] for a, b in zip([0, *cuts], [*cuts, len(texts)], strict=True)]
    merged = Aggregates()
    for part in draw.sample(parts, 3):
        merged.merge(of(part).to_dict())
    assert _plain(merged.to_dict()) == _plain(of(texts).to_dict())
    assert merged.conclude() == of(texts).conclude()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("per_head", [False, True])
def test_aggregates_of_two_texts_with_loops(per_head: bool) -> None:
    measure = "attention" if per_head else "alti"
    concluded = aggregate([1, 0], measure=measure, per_head=per_head).conclude()["m"]
    maps: list[Any] = [lens().measure(measure, TEXTS[t], per_head=per_head) for t in (1, 0)]
    scores = [one.scores.reshape(-1, *one.scores.shape[-2:]).astype(float) for one in maps]
    shares = [np.abs(s) / np.abs(s).sum(-1, keepdims=True) for s in scores]
    assert concluded["layers"][:3] == ([0, 0, 0] if per_head else [0, 1, 2])
    assert concluded.get("heads", [0, 1])[:2] == [0, 1]
    group = 1
    near = [s[group, i, i + d] for s in shares for d in (-1, 1) for i in _inside(len(s[0]), d)]
    value = concluded["mean_share_by_distance"][group][1]
    assert value == pytest.approx(np.mean(near), rel=1e-5)
    words = [
        [i for i in range(1, len(s[0]) - 1) if TEXTS[t].split()[i - 1] not in ",."]
        for s, t in zip(shares, (1, 0), strict=True)
    ]
    special = [
        s[group, i, 0] + s[group, i, -1] for s, own in zip(shares, words, strict=True) for i in own
    ]
    value = concluded["mean_share_by_kind"]["word"]["special"][group]
    assert value == pytest.approx(np.mean(special), rel=1e-5)
    value = concluded["mean_share_by_part_of_speech"]["DOG"]["OLD"][group]
    assert value == pytest.approx(shares[1][group, 3, 2], rel=1e-3)
    values = np.concatenate([s[group].reshape(-1) for s in shares])
    median = concluded["share_quantiles"][group]["0.5"]
    assert median == pytest.approx(np.quantile(values, 0.5, method="inverted_cdf"), rel=0.05)
    others = shares[0][group] - 2 * np.eye(len(shares[0][group]))
    target, source = np.unravel_index(others.argmax(), others.shape)
    tops = [tuple(context[1:]) for context in concluded["contexts"][group]]
    assert ("text 1", target, source) in tops
    most = max(float((s[group] - 2 * np.eye(len(s[group]))).max()) for s in shares)
    assert concluded["contexts"][group][0][0] == pytest.approx(most, abs=1e-5 + 1 / UNIT)


def _inside(count: int, shift: int) -> range:
    return range(max(0, -shift), count - max(0, shift))


@settings(max_examples=50, deadline=None)
@given(some.lists(some.floats(1e-5, 1.0), min_size=1, max_size=50))
def test_a_quantile_is_within_five_percent(values: list[float]) -> None:
    edges = quantiles(sketch(torch.tensor([[values]], dtype=torch.float64), 1)[0].numpy(), 1)
    for q, near in edges.items():
        stored = np.array(values, np.float32)
        exact = float(np.quantile(stored, float(q), method="inverted_cdf"))
        assert near == pytest.approx(exact, rel=0.05)


def test_a_token_has_the_part_of_speech_of_its_word() -> None:
    row = lens().record("Unbelievable dogs bark!").tokens["encoder"][0]
    tags = token_tags(row, ["ADJ", "NOUN", "VERB"])
    assert (tags[0], tags[-1]) == ("special", "special")
    assert list(dict.fromkeys(tags[1:-1])) == ["ADJ", "NOUN", "VERB"]
    assert len(tags) == len(row.labels)
    named = token_tags(row, ["ADJ", "PUNCT"], [(0, 12), (22, 23)])  # a corpus that names its words
    assert (named[1], named[-2:]) == ("ADJ", ["PUNCT", "special"])
    assert "none" in named
