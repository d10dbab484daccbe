"""Value Zeroing of layers whose rest does not work on single tokens, against a hook on the native
model.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor, nn

import mixlens
from mixlens import Lens
from mixlens.contracts import AttentionKind
from mixlens.replay.layer_rest import LayerRest
from tests.conformance.zoo import built, inputs
from tests.measures import models
from tests.zoo.native import cosine_distance, output_without, value_channels


def require_native_zeroing(
    model: nn.Module, given: dict[str, Any], *, targets: list[int] | None = None, sources: int = 3
) -> set[str]:
    """Compares a few sources of every layer; returns how the layers' rests were run."""
    recording = Lens(model).record(given)
    made = Lens(model).measure(
        "value_zeroing", given, **({} if targets is None else {"targets": targets})
    )
    scores = torch.tensor((made[0] if isinstance(made, list) else made).scores)
    modes = set()
    for number, layer in enumerate(recording.layers()):
        site = layer.site()
        modes.add(LayerRest(layer, AttentionKind.SELF).mode)
        module = model.get_submodule(layer.structure.path)
        channels = value_channels(model, given, site.values[0], module)
        assert channels is not None
        whole = output_without(model, given, channels, None, module)[0]
        for source in range(0, site.values.shape[2], max(1, site.values.shape[2] // sources)):
            edited = output_without(model, given, channels, source, module)[0]
            expected = cosine_distance(whole, edited)
            expected = expected if targets is None else expected[targets]
            own = scores[number, :, source].double()
            assert float((own - expected).abs().max()) <= 1e-4 * float(expected.max()) + 1e-6
    return modes


def test_experts_with_a_capacity_at_forty_tokens() -> None:
    sizes: dict[str, Any] = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_heads": 2, "num_layers": 2}
    config = hf.SwitchTransformersConfig(
        **sizes,
        vocab_size=50,
        num_experts=4,
        expert_capacity=12,
        num_sparse_encoder_layers=2,
        is_encoder_decoder=False,
    )
    model = models.randomised(hf.SwitchTransformersEncoderModel(config)).float()
    given = {"input_ids": torch.arange(3, 43)[None]}
    assert require_native_zeroing(model, given) == {"sequences"}


def _q_former() -> nn.Module:
    config = hf.Blip2QFormerConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        cross_attention_frequency=2,
        encoder_hidden_size=24,
        use_qformer_text_input=True,
    )
    return models.randomised(hf.Blip2QFormerModel(config)).float()


def test_the_q_former_of_blip2_has_another_feed_forward_part_past_its_queries() -> None:
    generator = torch.Generator().manual_seed(0)
    queries, image = (torch.randn(2, n, d, generator=generator) for n, d in ((9, 32), (7, 24)))
    given = {"query_embeds": queries, "query_length": 9, "encoder_hidden_states": image}
    modes = require_native_zeroing(_q_former(), given)
    assert modes == {"sequences"}


def test_a_q_former_layer_whose_text_skips_the_image_is_left_out() -> None:
    given = {
        "query_embeds": torch.randn(1, 9, 32),
        "query_length": 4,
        "encoder_hidden_states": torch.randn(1, 7, 24),
    }
    recording = Lens(_q_former()).record(given)
    assert re.search(
        r"pieces of the sequence .* \(\d, 4, 4, 7\)",
        recording.structure.left_out["encoder.layer.0"],
    )
    assert recording.layers()[0].structure.open is not None  # the other one has two feed-forwards


class _ByPlace(nn.Module):
    """A feed-forward part with other weights for the first rows, as in BLIP-2's Q-Former."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.first, self.rest = nn.Linear(width, inner), nn.Linear(width, inner)

    def forward(self, rows: Tensor) -> Tensor:
        return torch.relu(torch.cat([self.first(rows[:, :9]), self.rest(rows[:, 9:])], 1))


class _Convolution(nn.Module):
    """A feed-forward part that sees its neighbours."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.inner = nn.Conv1d(width, inner, 3, padding=1)

    def forward(self, rows: Tensor) -> Tensor:
        return torch.relu(self.inner(rows.mT)).mT


@pytest.mark.parametrize("part", [_ByPlace, _Convolution])
@pytest.mark.parametrize("targets", [None, [1, 4]])
def test_a_rest_that_depends_on_places_and_one_that_mixes_tokens(
    part: type[nn.Module], targets: list[int] | None
) -> None:
    config = hf.BertConfig(**models._SIZES, is_decoder=True)
    model = hf.BertModel(config, add_pooling_layer=False)
    for layer in model.encoder.layer:
        layer.intermediate = part(config.hidden_size, config.intermediate_size)
    model = models.randomised(model).float()
    given = {"input_ids": torch.tensor([[3, 7, 11, 2, 9, 5, 8]])}  # all in the first rows
    assert require_native_zeroing(model, given, targets=targets, sources=7) == {"sequences"}


def test_a_proof_for_which_memory_ran_out_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says nothing about the layer: remembered, it would cost every later call a run of the
    whole layer for each token.
    """

    def no_memory(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    lens, given = Lens(built("llama")), inputs("llama", rows=1)
    with monkeypatch.context() as patch:
        patch.setattr("mixlens.replay.layer_rest.run_with_outputs", no_memory)
        with pytest.raises(mixlens.OutOfMemory, match="memory ran out"):
            lens.measure("value_zeroing", given, targets=[-1])
    layer = lens.record(given).layers()[0]
    assert LayerRest(layer, AttentionKind.SELF).mode == "shortcut"
    maps = lens.measure("value_zeroing", given, targets=[-1])
    assert isinstance(maps, mixlens.MixingMaps)
    assert maps.provenance["recorded"] == "rows"
