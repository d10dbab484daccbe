"""attention_norm, attention_norm_res and attention_norm_res_ln: Kobayashi et al. 2020 and 2021."""

from __future__ import annotations

import pytest
import torch

from tests.measures import models, oracles


@pytest.mark.parametrize("length", models.LENGTHS)
@pytest.mark.parametrize(("name", "site"), models.SITES)
def test_attention_norm_agrees_with_the_loops(name: str, site: str, length: int) -> None:
    recorded = models.recording(name, length)
    blocks = oracles.blocks_checked(name, models.build(name), models.inputs(name, length), site)
    whole = models.scores("attention_norm", recorded, site=site).values[:, 0]
    per_head = models.scores("attention_norm", recorded, site=site, per_head=True).values[:, 0]
    for layer, block in enumerate(blocks):
        torch.testing.assert_close(whole[layer], oracles.attention_norm(block), atol=1e-10, rtol=0)
        torch.testing.assert_close(
            per_head[layer], oracles.attention_norm_per_head(block), atol=1e-10, rtol=0
        )


@pytest.mark.parametrize("measure", ["attention_norm_res", "attention_norm_res_ln"])
@pytest.mark.parametrize("length", models.LENGTHS)
@pytest.mark.parametrize(("name", "site"), models.SELF)
def test_residual_and_norm_agree_with_the_loops(
    name: str, site: str, length: int, measure: str
) -> None:
    made = models.scores(measure, models.recording(name, length), site=site)
    for layer, block in enumerate(
        oracles.blocks_checked(name, models.build(name), models.inputs(name, length), site)
    ):
        torch.testing.assert_close(
            made.values[layer, 0], getattr(oracles, measure)(block), atol=1e-10, rtol=0
        )
        if measure == "attention_norm_res_ln":
            torch.testing.assert_close(
                made.extras["mixing_ratio"][layer, 0],
                oracles.mixing_ratio(block),
                atol=1e-10,
                rtol=0,
            )


@pytest.mark.parametrize(
    "measure", ["attention_norm", "attention_norm_res", "attention_norm_res_ln"]
)
@pytest.mark.parametrize("name", ["bert", "gemma2"])
def test_chosen_targets_are_rows_of_the_whole_map(name: str, measure: str) -> None:
    recorded = models.recording(name, 9)
    whole, made = (
        models.scores(measure, recorded),
        models.scores(measure, recorded, targets=[4, 0, -1]),
    )
    torch.testing.assert_close(made.values, whole.values[:, :, [4, 0, 8]], atol=1e-12, rtol=0)
    for key, extra in made.extras.items():
        torch.testing.assert_close(extra, whole.extras[key][:, :, [4, 0, 8]], atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", ["bert", "gpt2", "gemma2", "gpt_neox"])
def test_the_block_output_is_the_sum_of_its_parts(name: str) -> None:
    for layer in models.recording(name, 9).layers():
        site = layer.site()
        parts = site.parts()
        written = (
            torch.einsum("bhts,bhsd->btd", site.weights, parts.vectors.of())
            * parts.scale[..., None]
        )
        assert parts.own is not None
        assert parts.constant is not None
        torch.testing.assert_close(
            written + parts.own + parts.constant, site.block_output, atol=1e-10, rtol=0
        )
