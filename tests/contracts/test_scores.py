"""Scores of layers on several devices are collected on the device of the first layer.

A machine with two GPUs is not needed: the meta device has shapes and no numbers.
"""

from __future__ import annotations

import torch

from mixlens.contracts import LayerScores, Scores, by_layer

PLACES = ("meta", "cpu")


def test_layers_are_stacked_where_the_first_of_them_is() -> None:
    layers = [torch.zeros(1, 3, 4, device=place) for place in PLACES]
    stacked = by_layer(layers)
    assert stacked.shape == (2, 1, 3, 4)
    assert stacked.device.type == "meta"


def test_layers_measured_one_by_one_are_stacked_with_their_extras() -> None:
    parts = [
        LayerScores(
            torch.zeros(1, 3, 4, device=place),
            {"rank": torch.zeros(1, 2, device=place)},
            {"rank": ("head",)},
            scale=torch.zeros(1, 3, device=place),
        )
        for place in PLACES
    ]
    joined = Scores.of_layers(parts)
    assert joined.scale is not None
    tensors = (joined.values, joined.extras["rank"], joined.scale)
    assert [tensor.device.type for tensor in tensors] == ["meta"] * 3
    assert joined.values.shape == (2, 1, 3, 4)
