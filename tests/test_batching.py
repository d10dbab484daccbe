"""Batches of texts of similar length under a memory limit, and batches that run out of memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some

from mixlens import Lens
from mixlens.errors import InvalidInput
from mixlens.measuring.batching import halve_until_it_fits, plan_batches, text_bytes, token_counts
from mixlens.measuring.estimates import Shape

MODEL: Any = Lens.bundled().model


@settings(max_examples=50, deadline=None)
@given(some.lists(some.integers(1, 300), min_size=1, max_size=60), some.integers(10**5, 10**8))
def test_every_text_once_and_no_batch_above_the_bound(lengths: list[int], memory: int) -> None:
    batches = plan_batches(lengths, MODEL, memory=memory)
    assert sorted(place for batch in batches for place in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[place] for place in batch)
        assert len(batch) == 1 or len(batch) * text_bytes(Shape.of(MODEL), longest) <= memory
    assert plan_batches(lengths, MODEL, memory=memory) == batches


def test_a_batch_size_takes_the_place_of_memory() -> None:
    assert plan_batches([5, 1, 3, 4, 2], MODEL, batch_size=2, memory=1) == [[1, 4], [2, 3], [0]]
    with pytest.raises(InvalidInput, match="is out of range"):
        plan_batches([1], MODEL, batch_size=0)
    wrong: Any = "2"
    with pytest.raises(InvalidInput, match="batch_size='2' is out of range"):
        plan_batches([1], MODEL, batch_size=wrong)


def test_batches_have_little_padding_once_they_are_large_enough() -> None:
    lengths = [length for length in range(5, 60) for _ in range(40)]
    batches = plan_batches(lengths, MODEL)
    tokens = [[lengths[place] for place in batch] for batch in batches]
    padding = [1 - sum(own) / (len(own) * max(own)) for own in tokens]
    assert len(batches) < 30
    for own, share in zip(tokens, padding, strict=True):
        assert share <= 0.1 or sum(own) < 1024 + max(own)


def test_memory_counts_words_of_a_large_vocabulary() -> None:
    bare = MODEL.base_model
    words = MODEL.config.vocab_size
    assert text_bytes(Shape.of(MODEL), 10) - text_bytes(Shape.of(bare), 10) == 10 * 2 * words * 4


def test_a_batch_that_does_not_fit_is_halved() -> None:
    calls: list[list[int]] = []
    captured: list[list[int]] = []

    def measure(places: list[int]) -> list[int]:
        calls.append(list(places))
        if len(places) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return [10 * place for place in places]

    assert halve_until_it_fits(measure, [3, 1, 4, 2, 5], captured.append) == [30, 10, 40, 20, 50]
    assert captured == [[3, 1, 4, 2, 5], [4, 2, 5]]

    def fail(places: list[int]) -> list[int]:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes"):
        halve_until_it_fits(fail, [1, 2])
    with pytest.raises(MemoryError):
        halve_until_it_fits(lambda places: (_ for _ in ()).throw(MemoryError()), [1])


def test_a_list_is_cut_by_tokens_and_gives_what_single_texts_give() -> None:
    lens = Lens.bundled()
    texts = ["The dogs bark .", "A cat .", "The old keys are on the table ."]
    assert token_counts(lens.tokenizer, texts) == [6, 5, 10]
    sizes: list[int] = []
    model: Any = lens.model
    words = model.get_input_embeddings()
    handle = words.register_forward_pre_hook(lambda _, ids: sizes.append(len(ids[0])))
    # With the hook, the structure is found and texts of a batch are proved independent, once.
    lens.measure("attention", texts, batch_size=2)
    sizes.clear()
    batched = lens.measure("attention", texts, batch_size=2)
    handle.remove()
    assert sizes == [2, 1]
    for text, maps in zip(texts, batched, strict=True):
        alone = lens.measure("attention", text)
        np.testing.assert_allclose(maps.scores, alone.scores, atol=1e-6)
