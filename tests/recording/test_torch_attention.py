"""Torch's own multi-head attention, which uses the weights of projections without calling them
(WavLM).
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch.nn import functional

import mixlens
from mixlens.capture.attention_call import Listener
from mixlens.capture.softmax_trace import run_stepwise
from tests.zoo.native import cosine_distance

HEADS = 4


@pytest.fixture(scope="module")
def wavlm() -> Any:
    torch.manual_seed(0)
    config = transformers.WavLMConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        intermediate_size=37,
        conv_dim=(32, 32),
        conv_stride=(4, 4),
        conv_kernel=(8, 8),
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=2,
        feat_extract_norm="layer",
        num_buckets=16,
        max_bucket_distance=20,
    )
    model = transformers.WavLMModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.eval()


def test_weights_and_value_zeroing_are_those_of_torch(
    wavlm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By torch's own option for values that are made elsewhere."""
    given = {"input_values": torch.randn(2, 400)}
    recording = mixlens.Lens(wavlm).record(given)
    layer = recording.layers()[1]
    site = layer.site()
    scores = mixlens.measure("value_zeroing", recording, layers=[1])
    original = functional.multi_head_attention_forward
    place = 3
    seen: list[torch.Tensor] = []
    edited: list[torch.Tensor | None] = [None]

    def watched(*args: Any, **kwargs: Any) -> Any:
        if (
            edited[0] is not None
            and kwargs["v_proj_weight"] is wavlm.encoder.layers[1].attention.v_proj.weight
        ):
            kwargs["static_v"] = edited[0].flatten(0, 1)
        kwargs["average_attn_weights"] = False
        output, weights = original(*args, **kwargs)
        assert weights is not None
        seen.append(weights)
        return output, weights.mean(1)

    monkeypatch.setattr(functional, "multi_head_attention_forward", watched)
    outputs = []
    with torch.no_grad():
        for values in (None, site.values.clone()):
            if values is not None:
                values[:, :, place] = 0
            edited[0] = values
            hook = wavlm.encoder.layers[1].register_forward_hook(
                lambda module, args, output: outputs.append(output[0].double())
            )
            wavlm(**given)
            hook.remove()
    torch.testing.assert_close(site.weights, seen[1])
    expected = cosine_distance(outputs[1][0], outputs[0][0])
    assert isinstance(scores, list)
    own = torch.tensor(scores[0].scores[0][:, place]).double()
    torch.testing.assert_close(own, expected, rtol=1e-3, atol=1e-7)
    assert expected.max() > 1e-5


class Tower(transformers.PreTrainedModel):
    config_class = transformers.PretrainedConfig
    main_input_name = "inputs_embeds"

    def __init__(self, layers: list[torch.nn.Module]) -> None:
        super().__init__(transformers.PretrainedConfig())
        self.layers = torch.nn.ModuleList(layers)
        self.post_init()

    def forward(self, inputs_embeds: torch.Tensor) -> tuple[torch.Tensor]:
        for layer in self.layers:
            inputs_embeds = layer(inputs_embeds)
        return (inputs_embeds,)


_LATER = torch.ones(5, 5, dtype=torch.bool).triu(1)
_PADDING = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])


@pytest.mark.parametrize(
    "options",
    [
        {"attn_mask": _LATER},
        {"attn_mask": -2.5 * _LATER.double()},
        {"attn_mask": -2.5 * _LATER.double().expand(2 * HEADS, 5, 5)},
        {"key_padding_mask": _PADDING},
        {"key_padding_mask": _PADDING, "attn_mask": _LATER},
        {"key_padding_mask": -1.5 * _PADDING.double(), "need_weights": False},
        {"average_attn_weights": False},
    ],
)
def test_taken_apart_it_gives_what_torch_gives(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    module = torch.nn.MultiheadAttention(16, HEADS).double()
    weight, bias = module.in_proj_weight, module.in_proj_bias
    projection = module.out_proj
    own = (16, HEADS, weight, bias, None, None, False, 0.0, projection.weight, projection.bias)
    query, key, value = torch.randn(3, 5, 2, 16, dtype=torch.float64)
    expected = functional.multi_head_attention_forward(query, key, value, *own, False, **options)
    known: dict[int, torch.nn.Linear] = {id(projection.weight): projection}
    for owners, calls in ((known, 1), ({}, 0)):
        listener = Listener()
        made = run_stepwise(listener, owners, query, key, value, *own, False, **options)
        assert listener.calls == calls, "what belongs to no module is left to torch"
        torch.testing.assert_close(made[0], expected[0], atol=1e-12, rtol=0)
        assert (made[1] is None) == (expected[1] is None)
        if expected[1] is not None:
            torch.testing.assert_close(made[1], expected[1], atol=1e-12, rtol=0)


def test_a_mask_hides_what_it_hides_in_torch() -> None:
    """An image tower after the first CLIP: `nn.MultiheadAttention` with a mask."""

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attn = torch.nn.MultiheadAttention(16, HEADS, batch_first=True)
            self.norm = torch.nn.LayerNorm(16)

        def forward(self, hidden: torch.Tensor) -> torch.Tensor:
            mask = torch.ones(hidden.shape[1], hidden.shape[1], dtype=torch.bool).triu(1)
            normed = self.norm(hidden)
            hidden = hidden + self.attn(normed, normed, normed, attn_mask=mask)[0]
            return hidden

    torch.manual_seed(0)
    model = Tower([Layer(), Layer()]).eval()
    given = {"inputs_embeds": torch.randn(2, 5, 16)}
    report = mixlens.Lens(model).verify(given)
    assert report.native_error < 1e-5
    weights = mixlens.Lens(model).record(given).layers()[0].site().weights
    layer = model.layers[0]
    normed = layer.norm(given["inputs_embeds"])
    mask = torch.ones(5, 5, dtype=torch.bool).triu(1)
    _, expected = layer.attn(normed, normed, normed, attn_mask=mask, average_attn_weights=False)
    torch.testing.assert_close(weights, expected)
    assert not weights.triu(1).any()


class OwnAttention(torch.nn.Module):
    """Calls torch's attention by itself, causal without a mask, and mixes experts by a softmax of
    each token, which is not attention.
    """

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.norm_of_experts = torch.nn.LayerNorm(16), torch.nn.LayerNorm(16)
        self.read, self.write = torch.nn.Linear(16, 48), torch.nn.Linear(16, 16)
        self.gate, self.experts = torch.nn.Linear(16, 3), torch.nn.Parameter(torch.randn(3, 16))

    def heads(self, hidden: torch.Tensor) -> tuple[torch.Tensor, ...]:
        split = self.read(self.norm(hidden)).unflatten(-1, (3, HEADS, -1))
        return tuple(split.permute(2, 0, 3, 1, 4))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        query, key, value = self.heads(hidden)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.write(mixed.transpose(1, 2).flatten(2))
        rows = self.norm_of_experts(hidden).flatten(0, 1)
        return hidden + (torch.softmax(self.gate(rows), -1) @ self.experts).view_as(hidden)


def test_attention_that_a_layer_calls_by_itself_is_causal_as_in_torch() -> None:
    torch.manual_seed(0)
    model = Tower([OwnAttention(), OwnAttention()]).eval()
    given = {"inputs_embeds": torch.randn(2, 5, 16)}
    report = mixlens.Lens(model).verify(given)
    assert report.native_error < 1e-5
    layer: Any = model.layers[0]
    query, key, _ = layer.heads(given["inputs_embeds"])
    scores = (query @ key.mT / 2).masked_fill(_LATER, -torch.inf)
    made = mixlens.Lens(model).record(given).layers()[0].site()
    torch.testing.assert_close(made.weights, scores.softmax(-1))
    assert made.structure.causal
