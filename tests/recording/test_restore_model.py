"""A model that changes itself is restored. Idle parts and short position tables are supported."""

from __future__ import annotations

import pytest
import torch
import transformers as hf

from mixlens import Lens, UnsupportedModel
from mixlens.contracts import AttentionKind
from tests.measures import models
from tests.zoo.untouched import changes, state_of


def test_a_model_that_switches_its_attention_for_good_is_put_back_and_refused() -> None:
    sizes = {**models._SIZES, "max_position_embeddings": 256}
    config = hf.BigBirdConfig(**sizes, block_size=4, num_random_blocks=1)
    model = models.randomised(hf.BigBirdModel(config, add_pooling_layer=False)).float()
    given = {"input_ids": torch.arange(4, 44).repeat(3)[None]}
    before = state_of(model, given)
    with pytest.raises(UnsupportedModel, match="changes its settings for a short text"):
        Lens(model).record({"input_ids": given["input_ids"][:, :9]})
    assert changes(before, state_of(model, given)) == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("idle", ["attention", "feed-forward", "both"])
def test_idle_layers_of_a_model_with_few_positions(dtype: torch.dtype, idle: str) -> None:
    config = hf.GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=4, n_positions=7)
    model = models.randomised(hf.GPT2Model(config)).to(dtype)
    block = model.h[0]
    with torch.no_grad():
        if idle != "feed-forward":
            block.attn.c_attn.weight[:, 32:], block.attn.c_attn.bias[32:] = 0, 0
            block.attn.c_proj.weight[:], block.attn.c_proj.bias[:] = 0, 0
        if idle != "attention":
            block.mlp.c_proj.weight[:], block.mlp.c_proj.bias[:] = 0, 0
    given = {"input_ids": torch.tensor([[3, 7, 11, 2, 9]])}
    report = Lens(model).verify(given)
    assert max(report.stacks[0].errors) < (1e-6 if dtype == torch.float32 else 1e-13)
    structure = Lens(model).record(given).layers()[0].structure
    assert structure.sites[0].kind is AttentionKind.SELF
    assert structure.feed_forward is not None
