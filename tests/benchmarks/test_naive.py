"""The naive forms give the measures' numbers: otherwise a ratio of times would mean nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import mixlens
from benchmarks import models, naive
from benchmarks.naive.zeroing import value_zeroing

CONFIG: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "vocab_size": 60,
}


def recorded(tokens: int) -> tuple[mixlens.Lens, models.Inputs, mixlens.Recording]:
    model = models.bert(dtype=torch.float64, **CONFIG)
    lens, inputs = mixlens.Lens(model), models.tokens(model, tokens)
    return lens, inputs, lens.record(inputs)


@pytest.mark.smoke
@pytest.mark.parametrize("tokens", [5, 14])  # below and above d_head
@pytest.mark.parametrize("name", sorted(naive.MAPS))
def test_maps_agree(name: str, tokens: int) -> None:
    _, _, recording = recorded(tokens)
    expected = naive.MAPS[name](naive.RecordedLayer.of(recording, 1))
    assert (
        naive.relative_error(mixlens.measure(name, recording, layers=[1]).scores[0], expected)
        < 1e-10
    )


def test_one_target_of_value_zeroing() -> None:
    _, _, recording = recorded(9)
    expected = value_zeroing(naive.RecordedLayer.of(recording, 0), targets=[4])
    scores = mixlens.measure("value_zeroing", recording, layers=[0], targets=[4]).scores[0]
    assert scores.shape == expected.shape == (1, 9)
    assert naive.relative_error(scores, expected) < 1e-10


def test_hidden_token_attribution_by_backward_passes() -> None:
    lens, inputs, recording = recorded(5)
    exact = mixlens.measure("hidden_token_attribution", recording).scores
    for layer in range(2):
        for target in (0, 3):
            expected = naive.jacobian.contributions(lens.model, inputs, layer, target)
            assert naive.relative_error(exact[layer, target], expected) < 1e-10


def test_a_wider_dtype_changes_only_rounding() -> None:
    model = models.bert(**CONFIG)
    recording = mixlens.Lens(model).record(models.tokens(model, 7))
    for name, form in naive.MAPS.items():
        single, double = (
            form(naive.RecordedLayer.of(recording, 1, dtype)) for dtype in (None, torch.float64)
        )
        assert (single.dtype, double.dtype) != (torch.float64, torch.float32)
        assert naive.relative_error(single, double) < 1e-4, name
