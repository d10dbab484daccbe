"""Layers whose output is not a known sum: several streams, a norm before the projection."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from transformers.models.deepseek_v4 import modeling_deepseek_v4

import mixlens
from mixlens.capture.layer_calls import layer_calls
from mixlens.structure.layer_discovery import structure_of
from mixlens.structure.layer_trace import trace_layer
from tests.zoo import native
from tests.zoo.models import entries, randomise

GIVEN = {"input_ids": torch.randint(1, 60, (2, 9), generator=torch.Generator().manual_seed(3))}


def scores(name: str, recording: mixlens.Recording, row: int = 0) -> Tensor:
    maps = mixlens.measure(name, recording)
    assert isinstance(maps, list)
    return torch.tensor(maps[row].scores)


def built(model: Any) -> Any:
    randomise(model.float().eval())
    return model


@pytest.fixture(scope="module")
def gemma3n() -> Any:
    torch.manual_seed(0)
    config = transformers.Gemma3nTextConfig(
        vocab_size=60,
        vocab_size_per_layer_input=60,
        hidden_size=32,
        hidden_size_per_layer_input=8,
        num_hidden_layers=3,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        intermediate_size=[37] * 3,
        altup_num_inputs=3,
        num_kv_shared_layers=1,  # the last layer reads the values of the first
        laurel_rank=8,
        layer_types=["full_attention", "sliding_attention", "full_attention"],
        sliding_window=4,
        activation_sparsity_pattern=[0.9, 0.0, 0.0],
        pad_token_id=0,
    )
    return built(transformers.Gemma3nForCausalLM(config))


def deepseek_v4(*layer_types: str) -> Any:
    torch.manual_seed(0)
    config = transformers.DeepseekV4Config(
        vocab_size=60,
        hidden_size=32,
        moe_intermediate_size=24,
        num_hidden_layers=len(layer_types),
        num_attention_heads=4,
        head_dim=16,
        q_lora_rank=16,
        o_groups=2,
        o_lora_rank=8,
        n_routed_experts=4,
        num_experts_per_tok=2,
        hc_mult=3,
        sliding_window=4,
        layer_types=list(layer_types),
        pad_token_id=0,
    )
    model = built(transformers.DeepseekV4ForCausalLM(config))
    model.set_attn_implementation("eager")
    return model


def test_all_streams_of_a_token_are_its_state(gemma3n: Any) -> None:
    recording = mixlens.Lens(gemma3n).record(GIVEN)
    assert recording.layers()[0].structure.style == "open"
    for layer, own in zip(recording.layers(), native_states(gemma3n), strict=True):
        torch.testing.assert_close(layer.output[..., 32:64], own[1])  # the streams come first


@torch.no_grad()
def native_states(model: Any) -> list[Tensor]:
    seen: list[Tensor] = []
    layers = model.get_submodule("model.layers").children()
    handles = [layer.register_forward_hook(lambda *call: seen.append(call[2])) for layer in layers]
    model(**GIVEN)
    for handle in handles:
        handle.remove()
    return seen


def test_attention_and_norms_are_those_of_the_model(gemma3n: Any) -> None:
    own = native.own_attentions(gemma3n, GIVEN)  # it leaves the model with eager attention
    recording = mixlens.Lens(gemma3n).record(GIVEN)
    norms = scores("attention_norm", recording, 1)
    for number, layer in enumerate(recording.layers()):
        site = layer.site()
        torch.testing.assert_close(site.weights, own[number], atol=1e-6, rtol=0)
        matrix = gemma3n.model.layers[number].self_attn.o_proj.weight.T.reshape(2, 16, 32)
        written = torch.einsum("hts,hse,hed->tsd", own[number][1], site.values[1], matrix)
        expected = written.norm(dim=-1).detach()
        torch.testing.assert_close(norms[number], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("number", [0, 1])
def test_value_zeroing_is_that_of_the_model_itself(gemma3n: Any, number: int) -> None:
    recording = mixlens.Lens(gemma3n).record(GIVEN)
    zeroing = scores("value_zeroing", recording)[number]
    module = gemma3n.model.layers[number]
    values = recording.layers()[number].site().values[0]
    channels = native.value_channels(gemma3n, GIVEN, values, module)
    assert channels is not None
    whole, edited = (
        native.first_tokens(native.output_without(gemma3n, GIVEN, channels, s, module), 9, 96)
        for s in (None, 2)
    )
    expected = native.cosine_distance(edited, whole)
    assert expected.max() > 1e-4
    torch.testing.assert_close(zeroing[:, 2].double(), expected, atol=1e-8, rtol=2e-4)


def test_measures_that_split_a_block_are_refused_for_what_is_missing(gemma3n: Any) -> None:
    report = mixlens.Lens(gemma3n).verify(GIVEN)
    assert "adds to one of several streams" in str(report.measures["alti"])
    assert [name for name in ("attention", "attention_norm") if report.measures[name]] == []
    recording = mixlens.Lens(gemma3n).record(GIVEN)
    with pytest.raises(mixlens.UnsupportedModel, match="not a known sum"):
        recording.layers()[0].site().parts()


@pytest.fixture
def without_value(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """DeepSeek's own eager attention, with the value of one source of one layer left out."""
    chosen: dict[str, Any] = {"layer": -1, "source": 0}
    eager = modeling_deepseek_v4.eager_attention_forward

    def edited(
        module: Any, query: Tensor, key: Tensor, value: Tensor, *args: Any, **more: Any
    ) -> Any:
        if module.layer_idx == chosen["layer"]:
            value = value.clone()
            value[:, :, chosen["source"]] = 0
        return eager(module, query, key, value, *args, **more)

    monkeypatch.setattr(modeling_deepseek_v4, "eager_attention_forward", edited)
    return chosen


def test_hyper_connections(without_value: dict[str, Any]) -> None:
    """Rotations of each target are between A V and the output projection: only values can be
    edited.
    """
    model = deepseek_v4("sliding_attention", "sliding_attention")
    lens = mixlens.Lens(model)
    recording = lens.record(GIVEN)
    assert recording.layers()[1].structure.sites[0].projection is None
    zeroing = scores("value_zeroing", recording)
    report = lens.verify(GIVEN)
    assert "no linear module takes the product" in str(report.measures["attention_norm"])
    for layer in (0, 1):
        without_value["layer"] = -1
        whole = native_states(model)[layer][0].flatten(1).double()
        without_value.update(layer=layer, source=2)
        edited = native_states(model)[layer][0].flatten(1).double()
        expected = native.cosine_distance(edited, whole)
        assert expected[2:6].min() > 1e-6  # a window of four
        assert not expected[:2].any()
        ours = zeroing[layer, :, 2].double()
        torch.testing.assert_close(ours, expected, atol=1e-8, rtol=2e-4)
        assert not ours[:2].any()


def test_heads_that_share_a_value_are_not_measured_without_a_projection() -> None:
    lens = mixlens.Lens(deepseek_v4("sliding_attention"))
    with pytest.raises(mixlens.UnsupportedModel, match="Measure without `per_head`"):
        lens.measure("value_zeroing", GIVEN, per_head=True)


def test_windows_that_are_pressed_into_one_source_are_left_out() -> None:
    recording = mixlens.Lens(
        deepseek_v4("sliding_attention", "compressed_sparse_attention")
    ).record(GIVEN)
    assert recording.structure.site(None).numbers == (0,)
    assert "not the tokens themselves" in recording.structure.left_out["model.layers.1"]


def test_sources_that_a_short_probe_does_not_have_are_not_dropped() -> None:
    """A window of 128 tokens is pressed into one source: the probe has a dozen."""
    lens = mixlens.Lens(deepseek_v4("heavily_compressed_attention"))
    assert lens.record(GIVEN).layers()[0].site().weights.shape[-1] == 9
    with pytest.raises(mixlens.UnsupportedModel, match="reads 131 sources for 130 tokens"):
        lens.record({"input_ids": torch.arange(130)[None] % 59 + 1})


def test_value_zeroing_by_values_is_that_by_outputs() -> None:
    """BitNet has a norm before its output projection."""
    entry = next(entry for entry in entries() if entry.key == "BitNetModel")
    model, given = entry.build(), entry.given()
    recording = mixlens.Lens(model).record(given)
    layer, module = recording.layers()[0], model.get_submodule("layers.0")
    assert layer.structure.sites[0].projection is None
    zeroing = scores("value_zeroing", recording)[0]
    channels = native.value_channels(model, given, layer.site().values[0], module)
    assert channels is not None
    whole, edited = (
        native.output_without(model, given, channels, source, module)[0] for source in (None, 1)
    )
    expected = native.cosine_distance(edited, whole)
    torch.testing.assert_close(zeroing[:, 1].double(), expected, atol=1e-8, rtol=1e-3)


def test_a_list_of_attentions_without_their_residual_is_not_a_list_of_layers() -> None:
    """XLM's, taken by itself: without attention, nothing of a token leaves it."""
    entry = next(entry for entry in entries() if entry.key == "XLMModel")
    path, given = "attentions.0", entry.given()
    (call,), _ = layer_calls(entry.build(), given, {path}, "trace")
    with torch.no_grad():
        trace = trace_layer(call, (None, None), "trace")
        with pytest.raises(mixlens.UnsupportedModel, match="computed outside the layer"):
            structure_of(path, trace, (None, None))
