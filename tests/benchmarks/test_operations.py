"""What a layer of a short call starts beyond the model's own operations must not grow back."""

from __future__ import annotations

import pytest
import torch

import mixlens
from benchmarks import models
from benchmarks.operations import Started, started
from mixlens.measuring import measure_together

SMALL = {
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 100,
}
TINY = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 100}


def _counted(name: str, layers: int) -> tuple[Started, Started]:
    """The forward pass of a model, and a measure of its last token."""
    model = models.llama(dtype=torch.bfloat16, device="cpu", num_hidden_layers=layers, **SMALL)
    model.set_attn_implementation("sdpa")
    lens, inputs = mixlens.Lens(model), models.tokens(model, 12)

    def forward() -> None:
        with torch.no_grad():
            model(**inputs, use_cache=False)

    def measured() -> None:
        measure_together([name], lens.record(inputs, targets=[-1]))

    measured()  # what is found out about a layer is remembered
    return started(forward), started(measured)


@pytest.mark.parametrize(
    ("name", "computing", "views"), [("attention_norm", 19, 36), ("value_zeroing", 83, 59)]
)
def test_a_layer_of_one_target_starts_few_operations(name: str, computing: int, views: int) -> None:
    (short, short_call), (long, long_call) = _counted(name, 2), _counted(name, 4)
    operations = (long_call.computing - short_call.computing) - (long.computing - short.computing)
    reshapes = (long_call.views - short_call.views) - (long.views - short.views)
    assert operations <= 2 * computing
    assert reshapes <= 2 * views
