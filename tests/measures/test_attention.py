from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers as hf

from mixlens import Lens
from mixlens.contracts import Facts
from tests.measures import models, oracles


@pytest.mark.parametrize(("name", "site"), models.SITES)
def test_is_what_the_model_reports(name: str, site: str) -> None:
    recorded = models.recording(name, 9)
    expected = torch.stack(
        [
            block.attention
            for block in oracles.blocks_checked(
                name, models.build(name), models.inputs(name, 9), site
            )
        ]
    )
    torch.testing.assert_close(
        models.scores("attention", recorded, site=site, per_head=True).values[:, 0],
        expected,
        atol=1e-12,
        rtol=0,
    )
    made = models.scores("attention", recorded, site=site)
    torch.testing.assert_close(made.values[:, 0], expected.mean(1), atol=1e-12, rtol=0)
    assert made.known_facts(Facts()).rows_sum_to_one


def test_targets_are_rows_of_the_whole_map() -> None:
    recorded = models.recording("bert", 9)
    whole = models.scores("attention", recorded, per_head=True).values
    made = models.scores("attention", recorded, per_head=True, targets=[-1, 2], layers=[1]).values
    assert torch.equal(made, whole[1:, :, :, [8, 2]])


def test_attention_sinks_are_recorded_in_the_properties() -> None:
    torch.manual_seed(0)
    settings: dict[str, Any] = {
        "vocab_size": 50,
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 4,
        "intermediate_size": 8,
        "num_local_experts": 2,
        "num_experts_per_tok": 1,
        "pad_token_id": 0,
    }
    model = hf.GptOssModel(hf.GptOssConfig(**settings)).eval()
    recorded = Lens(model).record({"input_ids": torch.arange(3, 10)[None]})
    made = models.scores("attention", recorded)
    assert made.values.sum(-1).max() < 0.99
    assert not made.known_facts(Facts(rows_sum_to_one=True)).rows_sum_to_one
