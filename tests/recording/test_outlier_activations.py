"""An outlier activation, as at the first token of a language model, hides no error: Value Zeroing
equals a hook on the native model.
"""

from __future__ import annotations

import copy

import pytest
import torch

from mixlens import Lens
from tests.conformance.zoo import built, inputs
from tests.zoo.native import cosine_distance, output_without, value_channels

TYPES = [
    *("gpt2", "gpt-neo", "gpt-neox", "gpt-neox-sequential", "gpt-j", "opt", "falcon", "mpt"),
    *("falcon-alibi", "llama", "mistral", "qwen2", "gemma", "gemma2", "opt-post", "qwen3-moe"),
    *("phi3", "olmo2", "granite", "cohere", "mixtral"),
]


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize(
    ("dtype", "size", "bar"), [(torch.float32, 1e6, 1e-3), (torch.bfloat16, 1e4, 0.1)]
)
def test_zeroing_next_to_an_outlier_activation(
    name: str, dtype: torch.dtype, size: float, bar: float
) -> None:
    model, given = built(name, dtype), inputs(name, rows=1)
    with torch.no_grad():
        model.get_input_embeddings().weight[given["input_ids"][0, 0], 3] = size
    lens = Lens(model)
    layer = lens.record(given).layers()[0]
    scores = torch.tensor(lens.measure("value_zeroing", given, layers=[0]).scores[0]).double()
    native = copy.deepcopy(model).float()
    module = native.get_submodule(layer.structure.path)
    values = Lens(native).record(given).layers()[0].site().values[0]
    channels = value_channels(native, given, values, module)
    assert channels is not None
    whole = output_without(native, given, channels, None, module)[0]
    for source in (0, 3):
        edited = output_without(native, given, channels, source, module)[0]
        expected = cosine_distance(whole, edited)[1:]  # not of the massive token itself
        error = float((scores[1:, source] - expected).abs().max())
        assert error <= bar * float(expected.max()) + 1e-11  # squares of float32's rounding
