"""Layers of unusual form: the rebuilt layer equals that of the model.

Models are those of the zoo, in float64, every weight random.
"""

from __future__ import annotations

import copy
import functools
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import mixlens
from mixlens import Lens
from mixlens.capture.softmax_trace import einsum_letters
from mixlens.measures import refusal
from mixlens.recording import span_scores
from mixlens.recording.layer import Layer
from tests.zoo.models import entries
from tests.zoo.native import cosine_distance, output_without, value_channels

GATED = ["Qwen3_5TextModel", "LagunaModel", "HrmTextModel", "GraniteSWAModel"]
CONFORMERS = {"ParakeetEncoder": 80, "LasrEncoder": 48, "Wav2Vec2BertForCTC": 12}  # frames
SUMS = ["GraniteMoeSharedModel"]  # several parts add to the stream
EINSUM = ["FunnelModel"]
FORMS = [*GATED, *CONFORMERS, *SUMS, *EINSUM]


@functools.cache
def _lens(name: str) -> tuple[Lens, dict[str, Any]]:
    entry = next(entry for entry in entries() if entry.name == name)
    given = entry.given()
    given = {key: value.double() if _real(value) else value for key, value in given.items()}
    if name in CONFORMERS:  # the rest of the sound would only take time
        given = {key: value[:, : CONFORMERS[name]] for key, value in given.items()}
    model: Any = entry.build().double()
    if hasattr(model, "set_experts_implementation"):  # grouped products do not run in float64
        model.set_experts_implementation("batched_mm")
    return Lens(model), given


def _real(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _measured(name: str, measure: str, **options: Any) -> Tensor:
    lens, given = _lens(name)
    maps = lens.measure(measure, given, **options)
    return torch.tensor((maps[0] if isinstance(maps, list) else maps).scores).double()


def _layers(name: str) -> list[Layer]:
    lens, given = _lens(name)
    recording = lens.record(given)
    return recording.layers(recording.sites[0])


@pytest.mark.parametrize("name", FORMS)
def test_value_zeroing_is_that_of_a_hook_on_the_model(name: str) -> None:
    (lens, given), layer = _lens(name), _layers(name)[0]
    scores = _measured(name, "value_zeroing")[0]
    module = lens.model.get_submodule(layer.structure.path)
    channels = value_channels(lens.model, given, layer.site().values[0], module)
    assert channels is not None
    whole = output_without(lens.model, given, channels, None, module)[0]
    for source in range(scores.shape[-1]):
        edited = output_without(lens.model, given, channels, source, module)[0]
        expected = cosine_distance(whole, edited)
        # some norms compute in float32
        torch.testing.assert_close(scores[:, source], expected[: len(scores)], atol=1e-7, rtol=1e-4)


# the values of Gemma 4 pass a norm without weights: no projection holds them
@pytest.mark.parametrize("name", [*FORMS, "Gemma4TextModel"])
def test_parts_add_up_to_the_block(name: str) -> None:
    for layer in _layers(name):
        site = layer.site()
        assert max(site.errors.values()) < 1e-6  # some norms compute in float32
        written = _written(site, site.gate)
        parts = site.parts()
        assert parts.constant is not None
        for linear in site.block.maps:
            written = linear(written)
        total = (written.sum(2) * parts.scale[..., None]) + parts.own + parts.constant
        torch.testing.assert_close(total, site.block_output, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", GATED)
def test_the_gates_of_a_span_fold_into_the_values(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (lens, given), site = _lens(name), _layers(name)[0].site()
    count = site.weights.shape[2]
    targets, weights = [count - 1, 1, count // 2], [1.0, 2.0, 0.5]
    vectors = _written(site, site.gate)[:, targets]
    written = torch.einsum("i,bijd->bjd", torch.tensor(weights).to(vectors), vectors)
    for at_once in (100, 2):
        monkeypatch.setattr(span_scores, "targets_at_once", lambda *_, count=at_once: count)
        chosen: dict[str, Any] = {"targets": targets, "span": "sum", "weights": weights}
        maps = mixlens.measure("attention_norm", lens.record(given), **chosen)
        made = torch.from_numpy(np.array((maps if isinstance(maps, list) else [maps])[0].scores))
        torch.testing.assert_close(made[0, 0], written[0].norm(dim=-1), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", GATED)
def test_norms_of_gated_attention_are_those_of_what_the_projection_takes(name: str) -> None:
    (lens, given), layer = _lens(name), _layers(name)[0]
    site = layer.site()
    projection = lens.model.get_submodule(
        f"{layer.structure.path}.{site.structure.output_projection}"
    )
    entered: list[Tensor] = []
    handle = projection.register_forward_pre_hook(lambda m, args: entered.append(args[0]))
    with torch.no_grad():
        lens.model(**given)
    handle.remove()
    mixed = (site.weights @ site.values).transpose(1, 2)
    gate = entered[0].reshape(mixed.shape) / mixed  # float64: nothing cancels so far
    assert (gate - 1).abs().max() > 0.1
    written = _written(site, gate)[0]
    norms = _measured(name, "attention_norm")[0]
    torch.testing.assert_close(written.norm(dim=-1), norms, atol=1e-6, rtol=1e-5)
    heads = _measured(name, "attention_norm", per_head=True)[0]
    for head in range(len(heads)):
        alone = _written(site, gate, slice(head, head + 1))[0]
        torch.testing.assert_close(alone.norm(dim=-1), heads[head], atol=1e-6, rtol=1e-5)
    written = written * site.structure.branch_scale
    diagonal = torch.arange(len(written))
    written[diagonal, diagonal] += site.residual[0] * site.structure.residual_scale
    norms = _measured(name, "attention_norm_res")[0]
    torch.testing.assert_close(written.norm(dim=-1), norms, atol=1e-6, rtol=1e-5)
    y = site.block_output[0]
    gains = y.abs().sum(-1)[:, None] - (y[:, None] - written).abs().sum(-1)
    gains = (gains * (site.weights[0] != 0).any(0)).clamp_min(0)
    shares = gains / gains.sum(-1, keepdim=True)
    torch.testing.assert_close(shares, _measured(name, "alti")[0], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", CONFORMERS)
def test_the_stream_of_a_conformer_enters_attention_after_half_a_feed_forward_part(
    name: str,
) -> None:
    (lens, given), layer = _lens(name), _layers(name)[1]
    entry = layer.structure.sites[0].enters
    assert entry is not None
    seen: list[Tensor] = []
    norm = lens.model.get_submodule(f"{layer.structure.path}.{entry.path}")
    handle = norm.register_forward_pre_hook(lambda m, args: seen.append(args[0]))
    with torch.no_grad():
        lens.model(**given)
    handle.remove()
    residual = layer.site().residual
    torch.testing.assert_close(seen[0], residual, atol=1e-6, rtol=1e-6)
    assert (residual - layer.input).abs().max() > 0.1
    assert len(layer.structure.further) == 2


_ONE_PART = ("decompx", "attention_norm_ff", "flow_routes", "alti_logit", "logit_update")


@pytest.mark.parametrize(
    ("name", "measures"),
    [
        ("GraniteSWAModel", ("effective_attention", "decompx", "attention_norm_ff", "flow_routes")),
        ("GraniteMoeSharedModel", _ONE_PART),
        ("Gemma4TextModel", _ONE_PART),
        ("Wav2Vec2BertForCTC", _ONE_PART),
    ],
)
def test_measures_that_would_be_wrong_are_refused(name: str, measures: tuple[str, ...]) -> None:
    lens, given = _lens(name)
    structure = lens.record(given).structure
    for measure in measures:
        assert refusal(measure, structure) is not None, measure


@pytest.mark.parametrize(
    ("equation", "letters"),
    [
        ("bnij,bjnd->bind", "bnijd"),  # Funnel
        ("bsij, bsjk -> bsik", "bsijk"),  # ProphetNet
        ("bnij,jbnd->ibnd", "bnijd"),  # XLNet
        ("ibnd,jbnd->bnij", None),  # queries and keys
        ("bnij,bnjd->bnjd", None),  # no target is left
        ("bnij,bd->bnd", None),
        ("bnij,...jd->...id", None),
    ],
)
def test_an_einsum_of_weights_and_values_is_known_by_its_letters(
    equation: str, letters: str | None
) -> None:
    assert einsum_letters(equation) == letters


class _Mixing(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, hidden: Tensor) -> Tensor:
        mixed: Tensor = self.inner(hidden).cumsum(1)
        return mixed


def test_a_part_before_attention_that_mixes_tokens_is_refused() -> None:
    lens, given = _lens("ParakeetEncoder")
    model: Any = copy.deepcopy(lens.model)
    model.layers[1].feed_forward1 = _Mixing(model.layers[1].feed_forward1).eval()
    assert list(Lens(model).verify(given).left_out) == ["`layers` 1"]


def _written(site: Any, gate: Tensor | None, heads: slice = slice(None)) -> Tensor:
    """What each source writes into each target, with loops: [batch, target, source, d_model]."""
    batch, count, targets, sources = site.weights.shape
    made = site.weights.new_zeros(batch, targets, sources, site.head_maps.shape[-1])
    for text in range(batch):
        for head in range(count)[heads]:
            for target in range(targets):
                for source in range(sources):
                    value = site.values[text, head, source]
                    if gate is not None:
                        value = value * gate[text, target, head]
                    weight = site.weights[text, head, target, source]
                    made[text, target, source] += weight * value @ site.head_maps[head]
    return made
