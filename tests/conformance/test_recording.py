"""The recording contract, on every supported family: the parts add up, padding changes nothing, the
model is left alone.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mixlens import InvalidInput, Lens, MixingMaps, UnsupportedModel
from mixlens.recording.recording import Recording
from tests.conformance.zoo import (
    FAMILIES,
    HEADS,
    LAYERS,
    PARTIAL,
    REFUSED,
    ZOO,
    built,
    inputs,
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


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_parts_add_up_to_the_native_model(name: str, dtype: torch.dtype) -> None:
    model, given = built(name, dtype), inputs(name, dtype)
    recording = Lens(model).record(given)
    exact = dtype == torch.float64 and ZOO[name].float64_inside and not ZOO[name].narrow_block_norm
    bar = 1e-5 if dtype == torch.float32 else 1e-6 if ZOO[name].narrow_block_norm else 1e-12
    assert len(_layers(recording)) == LAYERS * len(recording.structure.stacks)
    assert recording.structure.stacks[0].layers[0].style == ZOO[name].style
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
        name not in ("mixtral", "qwen3-moe", "gpt-oss") or dtype == torch.float32
    ):  # grouped products have no float64
        paths = [layer.structure.path for layer in _layers(recording)]
        ordered = [recording.layers(stack.name)[i] for stack, i in recording.structure.calls]
        for layer, native in zip(
            ordered, _native_layer_outputs(model, dict(given), paths), strict=True
        ):
            assert _far(layer.output, native) <= (1e-11 if exact else 1e-5)


@pytest.mark.parametrize("name", ZOO)
def test_rerun_and_two_routes_to_a_zeroed_value(name: str) -> None:
    """Editing values inside the attention function and subtracting contributions at the output
    projection are one thing.
    """
    recording = Lens(built(name, torch.float64)).record(inputs(name, torch.float64))
    for layer in _layers(recording):
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
                1e-11 if ZOO[name].float64_inside and not ZOO[name].narrow_block_norm else 1e-6
            )
            assert _far(inside[0], layer.output[1]) > 1e-4, "zeroing a value must change something"


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    "name",
    [name for name, animal in ZOO.items() if animal.kind in ("text", "translation", "towers")],
)
def test_padding_changes_nothing(name: str, side: str) -> None:
    model = built(name)
    given = inputs(name)
    alone = {
        key: value[:1, :6] if key in ("input_ids", "attention_mask") else value[:1]
        for key, value in given.items()
    }
    if "clip" in name:
        alone["input_ids"] = torch.cat([given["input_ids"][:1, :5], given["input_ids"][:1, -1:]], 1)
    blank = torch.zeros(1, 3, dtype=torch.long)
    pads = blank + (getattr(model.config, "pad_token_id", None) or 0)

    def beside(row: Tensor, fill: Tensor) -> Tensor:
        return torch.cat([fill, row] if side == "left" else [row, fill], 1)

    batch = dict(given)
    batch["input_ids"] = torch.cat([beside(alone["input_ids"], pads), given["input_ids"][1:]])
    batch["attention_mask"] = torch.cat(
        [beside(alone["attention_mask"], blank), given["attention_mask"][1:]]
    )
    lens = Lens(model)
    single, several = lens.record(alone), lens.record(batch)
    for one, many in zip(_layers(single), _layers(several), strict=True):
        length = one.input.shape[1]
        assert _far(many.output[:1, :length], one.output) <= 1e-5
        for a, b in zip(one.sites(), many.sites(), strict=True):
            n, m = a.weights.shape[-2:]
            assert (b.weights[:1, :, :n, :m] - a.weights).abs().max() <= 1e-5
            assert not b.weights[:1, :, :n, m:].any(), "a real token must not see padding"
            assert _far(b.block_output[:1, :n], a.block_output) <= 1e-5


@pytest.mark.parametrize("name", ZOO)
def test_causal_models_see_no_future(name: str) -> None:
    recording = Lens(built(name)).record(inputs(name))
    for stack in recording.structure.stacks:
        causal = stack.name in CAUSAL or "decoder" in stack.path.split(".")
        for layer in recording.layers(stack.name):
            site = layer.sites()[0]
            above = site.weights.triu(1)
            assert site.structure.causal == causal
            assert bool(above.any()) != causal
            sums = site.weights.sum(-1)
            assert (sums <= 1 + 1e-5).all()
            if name != "gpt-oss":  # its sinks take a share of every row
                assert (sums - 1).abs().max() <= 1e-5
            assert site.structure.heads == HEADS


@pytest.mark.parametrize("name", ZOO)
def test_the_model_is_left_as_it_was(name: str) -> None:
    model = built(name)
    parts = list(model.modules())
    before = [
        (
            len(part._forward_hooks),
            len(part._forward_pre_hooks),
            part.training,
            "forward" in vars(part),
            getattr(getattr(part, "config", None), "_attn_implementation_internal", None),
            getattr(getattr(part, "config", None), "_experts_implementation_internal", None),
        )
        for part in parts
    ]
    weights = {key: value.clone() for key, value in model.state_dict().items()}
    recording = Lens(model).record(inputs(name))
    for layer in _layers(recording):
        layer.sites()
        layer.rerun(0, copies=2)
    after = [
        (
            len(part._forward_hooks),
            len(part._forward_pre_hooks),
            part.training,
            "forward" in vars(part),
            getattr(getattr(part, "config", None), "_attn_implementation_internal", None),
            getattr(getattr(part, "config", None), "_experts_implementation_internal", None),
        )
        for part in parts
    ]
    assert before == after
    assert all(torch.equal(weights[key], value) for key, value in model.state_dict().items())


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
    with pytest.raises(InvalidInput, match="measured in layers 1"):
        lens.measure("attention", inputs(name, rows=1), layers=[0])
    with pytest.raises(InvalidInput, match="every layer from 0 on"):
        maps.rollout()
    with pytest.raises(UnsupportedModel, match="every layer from the first on"):
        lens.measure("hidden_token_attribution", inputs(name, rows=1), probes=2)
