from __future__ import annotations

import torch
import transformers

from mixlens import Lens
from mixlens.replay.value_map import value_bias, value_map


def test_the_values_are_found_among_thousands_of_columns() -> None:
    """In float32, where a rerun of the layer rounds differently."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=50, n_embd=768, n_layer=1, n_head=12)
    model = transformers.GPT2Model(config).eval()
    projection = model.h[0].attn.c_attn
    with torch.no_grad():
        projection.bias.normal_()
    layer = Lens(model).record({"input_ids": torch.arange(40)[None]}).layers()[0]
    weight, bias = value_map(layer, layer.site())
    torch.testing.assert_close(bias.flatten(), projection.bias[1536:])
    merged = weight.transpose(0, 1).flatten(1)
    torch.testing.assert_close(merged, projection.weight[:, 1536:])
    recovered = value_bias(layer, layer.site())
    assert recovered is not None
    torch.testing.assert_close(recovered, bias)
    with torch.no_grad():
        projection.bias.zero_()
    layer = Lens(model).record({"input_ids": torch.arange(40)[None]}).layers()[0]
    assert value_bias(layer, layer.site()) is None
