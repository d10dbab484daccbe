from __future__ import annotations

import torch

from mixlens import Lens
from tests.measures import models


def test_is_uniform_and_seeded() -> None:
    recorded = models.recording("bert", 9)
    first, again, other = (
        models.scores("random", recorded, seed=seed).values for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.min() >= 0
    assert first.max() <= 1
    assert 0.3 < first.mean() < 0.7
    assert not torch.equal(first[0], first[1])


def test_a_text_has_its_noise_wherever_it_stands() -> None:
    batched = models.scores(
        "random", Lens(models.build("bert")).record(models.padded_inputs("bert", [9, 5]))
    ).values
    alone = models.scores("random", models.recording("bert", 5, seed=1)).values
    assert torch.equal(batched[:, 1, :5, :5], alone[:, 0])
    assert torch.equal(
        models.scores(
            "random", models.recording("bert", 5, seed=1), layers=[1], targets=[3]
        ).values,
        alone[1:, :, 3:4],
    )


def test_the_future_gets_nothing() -> None:
    made = models.scores("random", models.recording("gpt2", 9)).values
    assert not made.triu(1).any()
    assert made.tril().gt(0).sum() == 2 * 45


def test_cross_attention_has_the_encoder_for_columns() -> None:
    assert models.scores("random", models.recording("bart", 9), site="cross").values.shape == (
        2,
        1,
        5,
        9,
    )
