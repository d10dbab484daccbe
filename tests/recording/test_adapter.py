"""The parts of transformers that mixlens depends on. If a new version changes one, these tests name
it.
"""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
import transformers
from transformers import AttentionInterface
from transformers.cache_utils import Cache
from transformers.masking_utils import AttentionMaskInterface, eager_mask
from transformers.pytorch_utils import Conv1D

from mixlens import Lens

SMALL: dict[str, Any] = {
    "vocab_size": 30,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 32,
}
MODELS = {
    "bert": lambda: transformers.BertModel(transformers.BertConfig(**SMALL)),
    "llama": lambda: transformers.LlamaModel(transformers.LlamaConfig(**SMALL)),
    "gpt2": lambda: transformers.GPT2Model(
        transformers.GPT2Config(vocab_size=30, n_embd=16, n_layer=2, n_head=4)
    ),
}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Any:
    torch.manual_seed(0)
    return MODELS[request.param]().eval()


def test_transformers_has_the_registries_that_capture_fills() -> None:
    for registry in (AttentionInterface, AttentionMaskInterface):
        assert callable(registry.register)
        assert isinstance(registry._global_mapping, dict)
    assert callable(eager_mask)
    assert issubclass(Conv1D, torch.nn.Module)
    assert inspect.isclass(Cache)


def test_transformers_keeps_the_attention_implementation_in_the_config(model: Any) -> None:
    config = model.config
    assert config._attn_implementation_internal == config._attn_implementation
    config._attn_implementation_internal = "eager"
    assert config._attn_implementation == "eager"


def test_transformers_modelling_files_have_the_eager_function_that_capture_calls(
    model: Any,
) -> None:
    eager = inspect.getmodule(type(model)).eager_attention_forward
    names = list(inspect.signature(eager).parameters)
    assert names[:5] == ["module", "query", "key", "value", "attention_mask"]


def test_captured_attention_equals_the_output_of_the_model(model: Any) -> None:
    inputs = {"input_ids": torch.arange(7)[None]}
    captured = Lens(model).measure("attention", inputs, per_head=True).scores
    model.set_attn_implementation("eager")
    with torch.no_grad():
        own = torch.stack(model(**inputs, output_attentions=True).attentions)[:, 0]
    torch.testing.assert_close(torch.tensor(captured), own, rtol=1e-5, atol=1e-6)
