from __future__ import annotations

import pytest
import torch

from mixlens.measures import refusal
from tests.measures import models, oracles


@pytest.mark.parametrize("length", models.LENGTHS)
@pytest.mark.parametrize(("name", "site"), [("bert", "encoder"), ("bart", "encoder")])
def test_agrees_with_the_loops(name: str, site: str, length: int) -> None:
    made = models.scores("globenc", models.recording(name, length), site=site).values
    for layer, block in enumerate(
        oracles.blocks_checked(name, models.build(name), models.inputs(name, length), site)
    ):
        torch.testing.assert_close(made[layer, 0], oracles.globenc(block), atol=1e-10, rtol=0)


def test_chosen_targets_are_rows_of_the_whole_map() -> None:
    recorded = models.recording("bert", 9)
    whole, made = (
        models.scores("globenc", recorded),
        models.scores("globenc", recorded, targets=[4, -1]),
    )
    torch.testing.assert_close(made.values, whole.values[:, :, [4, 8]], atol=1e-12, rtol=0)


@pytest.mark.parametrize(
    ("name", "site", "reason"),
    [
        ("gpt2", None, "no norm follows the attention block"),
        ("gemma2", None, "no norm follows the attention block"),
        ("gpt_neox", None, "no norm follows the attention block"),
        ("bart", "decoder", "cross-attention block"),
        ("bart", "cross", "not defined for cross-attention"),
    ],
)
def test_is_refused_where_it_is_not_defined(name: str, site: str, reason: str) -> None:
    given = refusal("globenc", models.recording(name, 9).structure, site)
    assert given is not None
    assert reason in given


def test_is_not_refused_for_post_norm() -> None:
    assert refusal("globenc", models.recording("bert", 9).structure) is None
    assert refusal("globenc", models.recording("bart", 9).structure, "encoder") is None
