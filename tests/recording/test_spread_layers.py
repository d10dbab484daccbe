"""Layers that are spread over several lists (XLM), treated as one, in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from mixlens import Lens
from mixlens.replay.intervention import ModelFrom
from tests.zoo.models import entries

GIVEN = {
    "input_ids": torch.tensor([[5, 9, 3, 20, 7], [8, 12, 30, 2, 2]]),
    "attention_mask": torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]),
}


def built() -> Any:
    return next(e for e in entries() if e.name == "XLMWithLMHeadModel").build().double()


def test_a_layer_returns_what_enters_the_next_one() -> None:
    model = built()
    layers = Lens(model).record(GIVEN).layers()
    entered: list[Tensor] = []
    for attention in model.transformer.attentions:
        attention.register_forward_pre_hook(lambda _, args: entered.append(args[0].clone()))
    model(**GIVEN)
    real = GIVEN["attention_mask"].bool()
    assert [layer.structure.style for layer in layers] == ["post"] * len(entered)
    for before, layer, after in zip(layers, layers[1:], entered[1:], strict=False):
        torch.testing.assert_close(layer.input[real], after[real])
        torch.testing.assert_close(before.output[real], after[real])


def test_other_states_reach_the_sum_outside_of_the_modules() -> None:
    model = built()
    recording = Lens(model).record(GIVEN)
    hidden = torch.randn(2, 5, 32, generator=torch.manual_seed(0), dtype=torch.float64)
    hidden = hidden * GIVEN["attention_mask"][..., None]
    made = ModelFrom(recording)(1, hidden, torch.arange(2)).logits
    model.transformer.layer_norm2[0].register_forward_hook(lambda *_: hidden.clone())
    torch.testing.assert_close(made, model(**GIVEN).logits)


@pytest.mark.parametrize("layer", [0, 1])
def test_gradients_are_those_of_the_model(layer: int) -> None:
    model = built()
    named = {"of": "logit", "word": 3, "position": 2}
    maps = Lens(model).measure("gradient_x_input", GIVEN, layers=[layer], **named)
    entered: list[Tensor] = []
    model.transformer.attentions[layer].register_forward_pre_hook(
        lambda module, args: entered.append(args[0])
    )
    slope = torch.autograd.grad(model(**GIVEN).logits[:, 2, 3].sum(), entered)[0]
    expected = (slope * entered[0]).sum(-1)[0].detach()
    assert isinstance(maps, list)
    torch.testing.assert_close(torch.tensor(maps[0].scores).flatten().double(), expected)


def test_a_sum_with_other_factors_is_refused() -> None:
    model = built()
    norm = model.transformer.layer_norm1[0]
    norm.register_forward_pre_hook(lambda module, args: (args[0] * 1.5,))
    left_out = Lens(model).verify(GIVEN).left_out
    assert list(left_out) == ["`transformer.attentions` 0"]
    assert "no module takes the sum of the stream" in left_out["`transformer.attentions` 0"]
