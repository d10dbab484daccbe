"""Samples: the right size, in proportion to the groups, the same ones in any order."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixlens.datasets import Dataset, Example
from mixlens.errors import InvalidInput


def data(sizes: list[int], order: int | None = None) -> Dataset:
    examples = [
        Example(name=f"f:{group}-{i}", text=f"text {group} {i}", group=f"g{group}")
        for group, size in enumerate(sizes)
        for i in range(size)
    ]
    if order is not None:
        Random(order).shuffle(examples)
    return Dataset("d", "text", tuple(examples))


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=6),
    st.integers(1, 60),
    st.integers(0, 3),
    st.integers(0, 9),
)
def test_samples_are_in_proportion_and_do_not_depend_on_order(
    sizes: list[int], count: int, seed: int, order: int
) -> None:
    drawn = data(sizes).sample(count, seed)
    assert len(drawn) == min(count, sum(sizes))
    for group, size in enumerate(sizes):
        assert (
            abs(drawn.groups.get(f"g{group}", 0) - min(count, sum(sizes)) * size / sum(sizes)) < 1
        )
    assert {each.name for each in data(sizes, order).sample(count, seed)} == {
        each.name for each in drawn
    }


def test_the_rest_goes_to_the_largest_remainder() -> None:
    for seed in range(5):
        assert data([17, 9, 4]).sample(10, seed).groups == {
            "g0": 6,
            "g1": 3,
            "g2": 1,
        }  # 5.67, 3, 1.33


def test_a_sample_does_not_depend_on_line_numbers() -> None:
    texts = [f"sentence {i}" for i in range(50)]

    def chosen(lines: list[str]) -> set[str]:
        examples = tuple(Example(name=f"file:{i}", text=text) for i, text in enumerate(lines))
        return {each.text for each in Dataset("d", "text", examples).sample(10)}

    assert chosen(texts) == chosen(texts[::-1])


def test_samples_keep_the_order_of_the_data_and_differ_by_seed() -> None:
    whole = data([40, 40])
    names = [each.name for each in whole]
    places = [names.index(each.name) for each in whole.sample(20)]
    assert places == sorted(places)
    assert set(whole.sample(20, 0)) != set(whole.sample(20, 1))
    with pytest.raises(InvalidInput, match="Sample size 0 is out of range"):
        whole.sample(0)


def test_a_dataset_is_a_sequence() -> None:
    dataset = data([2, 1])
    assert len(dataset) == 3
    assert dataset[0] is dataset.examples[0]
    assert list(dataset) == list(dataset.examples)
    assert dataset.groups == {"g0": 2, "g1": 1}
