"""Scores that are rounding become zero, and rollouts keep the content of such targets."""

from __future__ import annotations

import numpy as np
import torch
import transformers as hf

from mixlens import Lens
from tests.measures import models


def _model(scale: float) -> hf.GPT2LMHeadModel:
    """Its second layer attends to nothing but rounding."""
    config = hf.GPT2Config(
        vocab_size=50, n_embd=16, n_layer=2, n_head=4, n_positions=40, tie_word_embeddings=False
    )
    model = models.randomised(hf.GPT2LMHeadModel(config)).float()
    with torch.no_grad():
        model.transformer.h[1].attn.c_proj.weight.mul_(scale)
    return model


GIVEN = {"input_ids": torch.tensor([[3, 7, 11, 2, 9]])}


def test_value_zeroing_of_an_idle_layer_is_empty_and_its_rollout_passes_on() -> None:
    maps = Lens(_model(2e-7)).measure("value_zeroing", GIVEN)
    assert not isinstance(maps, list)
    assert maps.scores[0].any()
    assert not maps.scores[1].any()
    rolled = maps.rollout().scores
    np.testing.assert_array_equal(rolled[1], rolled[0])
    busy = Lens(_model(1.0)).measure("value_zeroing", GIVEN)
    assert not isinstance(busy, list)
    assert busy.scores[1].any(-1).all()


def test_blank_out_of_an_output_that_does_not_follow_the_input_is_empty() -> None:
    model = _model(1.0).double()
    with torch.no_grad():
        model.lm_head.weight.mul_(1e-15)
        model.lm_head.bias = torch.nn.Parameter(torch.ones(50, dtype=torch.float64))
    maps = Lens(model).measure("blank_out", GIVEN, replacement=5, word=7, of="logit")
    assert not isinstance(maps, list)
    assert not maps.scores.any()


def test_deep_lift_where_the_output_is_that_of_the_baseline() -> None:
    model = _model(1.0).double()
    with torch.no_grad():
        model.lm_head.weight.mul_(1e-16)
        model.lm_head.bias = torch.nn.Parameter(torch.ones(50, dtype=torch.float64))
    maps = Lens(model).measure("deep_lift", GIVEN, word=7, of="logit")
    assert not isinstance(maps, list)
    assert float(np.abs(maps.scores).max()) < 1e-10
