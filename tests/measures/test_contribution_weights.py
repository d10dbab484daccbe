"""contribution_weights: projections on the attention output."""

from __future__ import annotations

import pytest
import torch

from mixlens import Lens
from mixlens.kernels.decomposition import Vectors
from mixlens.measures.contribution_weights import projections
from tests.kernels.decompositions import LargestTensor
from tests.measures import models, oracles


@pytest.mark.parametrize("length", models.LENGTHS)
@pytest.mark.parametrize(("name", "site"), models.SITES)
def test_scores_agree_with_the_loops(name: str, site: str, length: int) -> None:
    recorded = models.recording(name, length)
    blocks = oracles.blocks_checked(name, models.build(name), models.inputs(name, length), site)
    whole = models.scores("contribution_weights", recorded, site=site)
    heads = models.scores("contribution_weights", recorded, site=site, per_head=True)
    for layer, block in enumerate(blocks):
        expected = oracles.contribution_weights(block)
        torch.testing.assert_close(whole.values[layer, 0], expected, atol=1e-9, rtol=1e-9)
        expected = oracles.contribution_weights_per_head(block)
        torch.testing.assert_close(heads.values[layer, 0], expected, atol=1e-9, rtol=1e-9)
        ratio, expected = whole.extras["uncancelled"][layer, 0], oracles.uncancelled(block)
        torch.testing.assert_close(ratio, expected, atol=1e-10, rtol=0)


def test_temporary_tensors_stay_within_the_limit() -> None:
    generator = torch.Generator().manual_seed(0)
    shapes = {"weights": (1, 4, 64, 26), "values": (1, 4, 26, 24), "matrix": (4, 24, 40)}
    drawn = {
        name: torch.randn(shape, generator=generator, dtype=torch.float64)
        for name, shape in shapes.items()
    }
    weights, vectors = drawn["weights"], Vectors(drawn["values"], drawn["matrix"])
    expected = projections(weights, vectors, 2**30)
    with LargestTensor() as largest:
        made = projections(weights, vectors, 2**14)
    torch.testing.assert_close(made, expected)
    assert largest.numbers == weights.numel()  # the argument itself


@pytest.mark.parametrize("per_head", [False, True])
@pytest.mark.parametrize(("name", "site"), models.SITES)
def test_rows_sum_to_one(name: str, site: str, per_head: bool) -> None:
    made = models.scores(
        "contribution_weights", models.recording(name, 9), site=site, per_head=per_head
    )
    sums = made.values.sum(-1)
    torch.testing.assert_close(sums, torch.ones_like(sums), atol=1e-10, rtol=0)
    remains = made.extras["uncancelled"]
    assert bool(((remains > 0) & (remains <= 1 + 1e-12)).all())


@pytest.mark.parametrize("per_head", [False, True])
def test_named_targets_have_the_scores_of_the_map(per_head: bool) -> None:
    lens, x = Lens(models.build("llama")), models.inputs("llama", 9)
    whole = lens.measure("contribution_weights", x, per_head=per_head)
    few = lens.measure("contribution_weights", x, per_head=per_head, targets=[8, 3])
    assert abs(few.scores - whole.scores[..., [8, 3], :]).max() < 1e-6  # softmax in float32


def test_values_of_zero_have_empty_rows() -> None:
    """0 / 0 is no score."""
    model = models.randomised(models.BUILDERS["gpt2"](), seed=3)
    with torch.no_grad():
        for block in model.h:
            block.attn.c_proj.weight.zero_()
    maps = Lens(model).measure("contribution_weights", models.inputs("gpt2", 4))
    assert not maps.scores.any()
    assert not maps.extras["uncancelled"].any()
    assert not maps.facts.rows_sum_to_one
