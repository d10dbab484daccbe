"""The recording contract on every supported family: the parts add up, padding changes nothing, and
the model is unchanged.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mixlens import InvalidInput, Lens, MixingMaps, UnsupportedModel
from mixlens.recording.recording import Recording
from tests.conformance.families import Family, state
from tests.conformance.zoo import (
    FAMILIES,
    HEADS,
    LAYERS,
    PARTIAL,
    REFUSED,
    ZOO,
    built,
    inputs,
    with_plain_attention,
)

CAUSAL = {"decoder", "text_model"}


def _far(actual: Tensor, expected: Tensor) -> float:
    return float((actual - expected).abs().max() / expected.abs().max())


def _layers(recording: Recording) -> list[Any]:
    return [layer for stack in recording.structure.stacks for layer in recording.layers(stack.name)]


def _native_layer_outputs(
    model: nn.Module, given: dict[str, Tensor], paths: list[str]
) -> list[Tensor]:
    """Layer outputs of the untouched model, by plain hooks of this test's own."""
    seen: list[Tensor] = []

    def keep(_module: object, _args: object, output: Any) -> None:
        seen.append(output[0] if isinstance(output, tuple) else output)

    handles = [
        model.get_submodule(path).register_forward_hook(keep) for path in dict.fromkeys(paths)
    ]
    with torch.no_grad():
        model(**given)
    for handle in handles:
        handle.remove()
    return seen


every_family = pytest.mark.parametrize("bare", ZOO, indirect=True)


@pytest.mark.parametrize("bare", FAMILIES, indirect=True)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_parts_add_up_to_the_native_model(bare: Family, dtype: torch.dtype) -> None:
    recording, animal = bare.recordings[dtype], ZOO[bare.name]
    exact = dtype == torch.float64 and animal.float64_inside and not animal.narrow_block_norm
    bar = 1e-5 if dtype == torch.float32 else 1e-6 if animal.narrow_block_norm else 1e-12
    assert len(_layers(recording)) == LAYERS * len(recording.structure.stacks)
    assert recording.structure.stacks[0].layers[0].style == animal.style
    for layer in _layers(recording):
        assert layer.input.shape == layer.output.shape
        for site in layer.sites():
            assert max(site.errors.values()) <= bar, site.errors
            parts = site.parts()
            weighted = torch.einsum("bhts,bhsd->btd", site.weights, parts.vectors.of())
            rebuilt = weighted * parts.scale[..., None] + parts.own + parts.constant
            assert _far(rebuilt, parts.total) <= bar
            from_sources = (
                torch.einsum("bhts,bhsd->btd", site.weights, site.transformed()) + site.output_bias
            )
            assert _far(from_sources, site.projected) <= bar
    if (
        bare.name not in ("mixtral", "qwen3-moe", "gpt-oss") or dtype == torch.float32
    ):  # grouped products have no float64
        paths = [layer.structure.path for layer in _layers(recording)]
        ordered = [recording.layers(stack.name)[i] for stack, i in recording.structure.calls]
        natives = _native_layer_outputs(bare.models[dtype], inputs(bare.name, dtype), paths)
        for layer, native in zip(ordered, natives, strict=True):
            assert _far(layer.output, native) <= (1e-11 if exact else 1e-5)


@every_family
def test_rerun_and_two_routes_to_a_zeroed_value(bare: Family) -> None:
    """Editing values inside the attention function and subtracting contributions at the output
    projection are one thing.
    """
    animal = ZOO[bare.name]
    for layer in _layers(bare.recordings[torch.float64]):
        again = layer.rerun(1, copies=3)
        assert _far(again, layer.output[1].expand_as(again)) <= 1e-12
        for site in layer.sites():
            kind, source = site.structure.kind, 2
            values = site.values[1, :: site.structure.heads // site.structure.kv_heads].clone()
            values[:, source] = 0
            contribution = torch.einsum(
                "ht,hd->td", site.weights[1, :, :, source], site.transformed()[1, :, source]
            )
            inside = layer.rerun(1, values=values[None], kind=kind)
            outside = layer.rerun(
                1, attention_output=(site.projected[1] - contribution)[None], kind=kind
            )
            assert _far(inside, outside) <= (
                1e-11 if animal.float64_inside and not animal.narrow_block_norm else 1e-6
            )
            assert _far(inside[0], layer.output[1]) > 1e-4, "zeroing a value must change something"


@pytest.mark.parametrize(
    "bare",
    [name for name, animal in ZOO.items() if animal.kind in ("text", "translation", "towers")],
    indirect=True,
)
def test_padding_changes_nothing(bare: Family) -> None:
    """The first text, cut, alone and padded on either side, with the second as company."""
    model, given = bare.models[torch.float32], inputs(bare.name)
    alone = {
        key: value[:1, :6] if key in ("input_ids", "attention_mask") else value[:1]
        for key, value in given.items()
    }
    if "clip" in bare.name:
        alone["input_ids"] = torch.cat([given["input_ids"][:1, :5], given["input_ids"][:1, -1:]], 1)
    blank = torch.zeros(1, 3, dtype=torch.long)
    pads = {
        "input_ids": blank + (getattr(model.config, "pad_token_id", None) or 0),
        "attention_mask": blank,
    }
    batch = {key: torch.cat([value[:1], value]) for key, value in given.items()}
    for key, fill in pads.items():
        short = alone[key]
        batch[key] = torch.cat(
            [torch.cat([fill, short], 1), torch.cat([short, fill], 1), given[key][1:]]
        )
    lens = Lens(model)
    single, several = lens.record(alone), lens.record(batch)
    for one, many in zip(_layers(single), _layers(several), strict=True):
        length = one.input.shape[1]
        for place in (slice(0, 1), slice(1, 2)):
            assert _far(many.output[place, :length], one.output) <= 1e-5
            for a, b in zip(one.sites(), many.sites(), strict=True):
                n, m = a.weights.shape[-2:]
                assert (b.weights[place, :, :n, :m] - a.weights).abs().max() <= 1e-5
                assert not b.weights[place, :, :n, m:].any(), "a real token must not see padding"
                assert _far(b.block_output[place, :n], a.block_output) <= 1e-5


@every_family
def test_causal_models_see_no_future(bare: Family) -> None:
    recording = bare.recordings[torch.float32]
    for stack in recording.structure.stacks:
        causal = stack.name in CAUSAL or "decoder" in stack.path.split(".")
        for layer in recording.layers(stack.name):
            site = layer.sites()[0]
            above = site.weights.triu(1)
            assert site.structure.causal == causal
            assert bool(above.any()) != causal
            sums = site.weights.sum(-1)
            assert (sums <= 1 + 1e-5).all()
            if bare.name != "gpt-oss":  # its sinks take a share of every row
                assert (sums - 1).abs().max() <= 1e-5
            assert site.structure.heads == HEADS


@every_family
def test_attention_implementation_changes_nothing(bare: Family) -> None:
    """Loaded as eager or as sdpa: the same numbers, if a model offers both."""
    plain = with_plain_attention(bare.name, bare.models[torch.float32])
    other = Lens(plain).record(inputs(bare.name))
    for a, b in zip(_layers(bare.recordings[torch.float32]), _layers(other), strict=True):
        assert _far(a.output, b.output) <= 1e-5
        assert _far(a.sites()[0].weights, b.sites()[0].weights) <= 1e-5


@every_family
def test_the_model_is_left_as_it_was(bare: Family) -> None:
    """After all of the above."""
    for dtype, model in bare.models.items():
        for layer in _layers(bare.recordings[dtype]):
            layer.sites()
            layer.rerun(0, copies=2)
        (parts, weights), (parts_before, weights_before) = state(model), bare.before[dtype]
        assert parts == parts_before
        assert all(torch.equal(weights[key], value) for key, value in weights_before.items())


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_reason(name: str) -> None:
    with pytest.raises(UnsupportedModel, match=r"attention|layer") as caught:
        Lens(built(name)).record(inputs(name, tokens=12))
    assert len(str(caught.value)) > 40


@pytest.mark.parametrize("name", PARTIAL)
def test_a_hybrid_is_measured_in_its_attention_layers(name: str) -> None:
    lens = Lens(built(name))
    report = lens.verify(inputs(name))
    assert list(report.left_out) == ["`layers` 0"]
    maps = lens.measure("value_zeroing", inputs(name, rows=1))
    assert isinstance(maps, MixingMaps)
    assert maps.layers == (1,)  # the number that it has in the model
    assert lens.measure("attention", inputs(name, rows=1), layers=[1]).layers == (1,)
    with pytest.raises(InvalidInput, match="has no measured attention"):
        lens.measure("attention", inputs(name, rows=1), layers=[0])
    with pytest.raises(InvalidInput, match="every layer from 0 on"):
        maps.rollout()
    with pytest.raises(UnsupportedModel, match="all layers, starting with the first"):
        lens.measure("hidden_token_attribution", inputs(name, rows=1), probes=2)
