"""Folded layers: the same derivative as the whole layer, and never used if it is not."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import transformers as hf

from mixlens import Lens
from mixlens.replay import attention_slopes, folding, jacobian
from mixlens.replay.folding import AfterAttention
from mixlens.replay.forward_derivative import Push, forward_derivative
from mixlens.replay.intervention import LayerFunction
from tests.conformance import zoo
from tests.measures import models
from tests.measures.test_hidden_token_attribution import ROUNDED, by_backward_passes


def _step(name: str, site: str, index: int = 1, length: int = 9) -> Any:
    return LayerFunction(
        models.recording(name, length).layers(site)[index], 0, of_states=site == "cross"
    )


def _derivative(step: Any) -> Push:
    push = forward_derivative(step)
    assert push is not None
    return push


def _primals(step: Any) -> Any:
    return (step.point,) if step.states is None else (step.point, step.states)


def _noise(step: Any, count: int = 5, seed: int = 7) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return tuple(
        torch.randn(count, *p.shape, generator=generator, dtype=p.dtype) for p in _primals(step)
    )


def _way(push: Any) -> Any:
    return push.parts.__qualname__.split(".")[0]


@pytest.mark.smoke
@pytest.mark.parametrize(("name", "site"), models.SITES)
def test_a_folded_layer_has_the_derivative_of_the_whole_layer(name: str, site: str) -> None:
    step = _step(name, site)
    whole = _derivative(step)
    made = folding.fold(step, whole, size=7)
    assert made is not None
    torch.testing.assert_close(
        made(_primals(step), _noise(step)),
        whole(_primals(step), _noise(step)),
        atol=ROUNDED.get(name, 1e-11),
        rtol=ROUNDED.get(name, 0),
    )


@pytest.mark.parametrize(("name", "site"), models.SITES)
@pytest.mark.parametrize("path", ["whole", "differentiated", "basis", "fastest", "banded"])
def test_every_way_equals_one_backward_pass_per_scalar(
    name: str, site: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = []

    def folded(step: Any, push: Any, *, size: int) -> Any:
        ways.append(pushed := folding.fold(step, push, size=size))
        return pushed

    monkeypatch.setattr(jacobian, "fold", folded)
    monkeypatch.setattr(jacobian, "is_worth_folding", lambda step, tangents: path != "whole")
    if path in ("differentiated", "basis"):
        monkeypatch.setattr(folding, "_form_softmax_parts", _refused)
    if path == "basis":
        monkeypatch.setattr(folding, "find_mlp", lambda layer: None)
    if path == "banded":  # room for the matrices of one layer only
        monkeypatch.setattr("mixlens.kernels.chunks.LARGEST", 200_000)
        schedule = jacobian._Schedule.__init__

        def cramped(
            self: Any, steps: Any, pushes: Any, tangents: Any, size: int, memory: int
        ) -> Any:
            schedule(
                self,
                steps,
                pushes,
                tangents,
                size,
                max(folding.folded_bytes(step) for step in steps),
            )

        monkeypatch.setattr(jacobian._Schedule, "__init__", cramped)
    expected = by_backward_passes(name, site, 9)
    made = models.scores("hidden_token_attribution", models.recording(name, 9), site=site).values[
        :, 0
    ]
    torch.testing.assert_close(made, expected, atol=ROUNDED.get(name, 1e-10), rtol=0)
    assert all(way is not None for way in ways)
    assert (len(ways) == 0) == (path == "whole")
    assert (len(ways) > len(made)) == (
        path == "banded"
    )  # a layer is folded again for every band, else once


def _refused(step: Any, rest: Any) -> Any:
    raise ValueError("a different form")


def test_the_closed_forms_are_used_where_they_hold() -> None:
    for name, site, way in [
        ("bert", "encoder", "_form_softmax_parts"),
        ("gpt2", "decoder", "_form_softmax_parts"),
        ("bart", "encoder", "_form_softmax_parts"),
        ("llama", "decoder", "_differentiate_parts"),  # positions turn queries and keys
        ("gemma2", "decoder", "_differentiate_parts"),  # and scores are capped
        ("bart", "cross", "_differentiate_parts"),  # two attentions
    ]:
        step = _step(name, site)
        assert _way(folding.fold(step, _derivative(step), size=64)) == way, name


@pytest.mark.parametrize(
    ("name", "site"),
    [("bert", "encoder"), ("gpt2", "decoder"), ("llama", "decoder"), ("bart", "encoder")],
)
def test_an_mlp_in_closed_form_equals_its_derivative(
    name: str, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = _step(name, site)
    rest = AfterAttention(step)
    with torch.no_grad():
        (closed,) = folding._matrices_of(step, rest, 5)
        monkeypatch.setattr(folding, "find_mlp", lambda layer: None)
        (pushed,) = folding._matrices_of(step, rest, 5)
    torch.testing.assert_close(
        closed, pushed, atol=ROUNDED.get(name, 1e-11), rtol=ROUNDED.get(name, 0)
    )


def test_a_closed_form_goes_through_an_rms_norm_at_the_end_of_a_layer() -> None:
    """BERT with RMS norms, which no family has, and which the equations allow."""
    model = copy.deepcopy(models.build("bert"))
    for layer in model.encoder.layer:
        for part in (layer.attention.output, layer.output):
            part.LayerNorm = torch.nn.RMSNorm(16, 1e-3)
    recorded = Lens(models.randomised(model)).record(models.inputs("bert", 9))
    step = LayerFunction(recorded.layers("encoder")[1], 0, of_states=False)
    whole = _derivative(step)
    made: Any = folding.fold(step, whole, size=7)
    assert _way(made) == "_form_softmax_parts"
    assert len(made.matrices) == 1
    torch.testing.assert_close(
        made(_primals(step), _noise(step)), whole(_primals(step), _noise(step)), atol=1e-11, rtol=0
    )


@pytest.mark.parametrize(
    "name", ["mixtral", "gpt-oss", "dinov2", "deberta-v2", "falcon", "granite", "t5"]
)
def test_other_layers_fold_or_are_left_alone(name: str) -> None:
    recorded = Lens(zoo.built(name, torch.float64)).record(zoo.inputs(name, torch.float64))
    for site in recorded.sites:
        step = LayerFunction(recorded.layers(site)[-1], 1, of_states=site == "cross")
        whole = _derivative(step)
        made = folding.fold(step, whole, size=16)
        if made is not None:
            one, other = (push(_primals(step), _noise(step)) for push in (made, whole))
            assert (one - other).abs().max() <= 1e-6 * other.abs().max()


# ------------------------------------------------------------------------ what is wrong is not used


def test_a_wrong_closed_form_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    step = _step("bert", "encoder")
    whole = _derivative(step)
    right = attention_slopes._norm_then
    monkeypatch.setattr(
        attention_slopes, "_norm_then", lambda *arguments: 1.0001 * right(*arguments)
    )
    made = folding.fold(step, whole, size=64)  # then the matrices come from the layer's own code
    assert made is not None
    torch.testing.assert_close(
        made(_primals(step), _noise(step)), whole(_primals(step), _noise(step)), atol=1e-11, rtol=0
    )


def test_a_wrong_attention_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    step = _step("gpt2", "decoder")
    whole = _derivative(step)
    right = attention_slopes.AttentionSlopes.__call__
    monkeypatch.setattr(
        attention_slopes.AttentionSlopes,
        "__call__",
        lambda self, tangents: 1.0001 * right(self, tangents),
    )
    assert _way(folding.fold(step, whole, size=64)) == "_differentiate_parts"


def test_wrong_matrices_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    step = _step("gemma2", "decoder")
    whole = _derivative(step)
    right = folding._by_basis
    monkeypatch.setattr(folding, "_by_basis", lambda *arguments: 1.0001 * right(*arguments))
    assert folding.fold(step, whole, size=64) is None
    expected = models.scores("hidden_token_attribution", models.recording("gemma2", 9)).values
    monkeypatch.setattr(jacobian, "is_worth_folding", lambda step, tangents: False)
    assert torch.equal(
        models.scores("hidden_token_attribution", models.recording("gemma2", 9)).values, expected
    )


# --------------------------------------------------------------------------------- when, and traces


def test_few_tangents_are_not_worth_the_matrices() -> None:
    step = _step("bert", "encoder")
    assert not folding.is_worth_folding(step, 4)
    assert folding.is_worth_folding(step, 64)
    assert not folding.is_worth_folding(object(), 10**9)
    assert folding.folded_bytes(step) == 9 * 16 * 16 * 8
    assert folding.folded_bytes(_step("gpt_neox", "decoder")) == 2 * 9 * 16 * 16 * 8


def test_without_memory_nothing_is_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jacobian, "fold", lambda *arguments, **options: pytest.fail("folded"))
    recorded = Lens(models.build("bert")).record(models.inputs("bert", 6), memory_budget=1000)
    models.scores("hidden_token_attribution", recorded)


@pytest.mark.parametrize(
    ("name", "site"), [("bert", "encoder"), ("gpt2", "decoder"), ("bart", "cross")]
)
def test_a_seed_gives_the_same_probes_folded_or_not(
    name: str, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    for folds in (True, False):
        monkeypatch.setattr(jacobian, "is_worth_folding", lambda step, tangents, folds=folds: folds)
        made.append(
            models.scores(
                "hidden_token_attribution", models.recording(name, 7), site=site, probes=8, seed=3
            )
        )
    torch.testing.assert_close(made[0].values, made[1].values, atol=1e-12, rtol=0)
    torch.testing.assert_close(
        made[0].extras["standard_error"], made[1].extras["standard_error"], atol=1e-12, rtol=0
    )


def test_coarse_products_of_the_recording_do_not_stand_in_the_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with TF32 on a GPU: comparisons are made in full precision, at a point that was recorded
    without it.
    """
    model = models.randomised(
        hf.BertModel(hf.BertConfig(**models._SIZES), add_pooling_layer=False)
    ).float()
    plain = torch.nn.Linear.forward

    def coarse(self: Any, given: Any) -> Any:
        return plain(
            self,
            given if torch.get_float32_matmul_precision() == "highest" else given.half().float(),
        )

    monkeypatch.setattr(torch.nn.Linear, "forward", coarse)
    for module in ("recording.rebuilding", "recording.layer"):
        monkeypatch.setattr(f"mixlens.{module}.rounding", lambda like, dtype=None: 2e-2)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        recorded = Lens(model).record(models.inputs("bert", 6))
        step = LayerFunction(recorded.layers()[1], 0)
        assert _way(folding.fold(step, _derivative(step), size=64)) == "_form_softmax_parts"
    finally:
        torch.set_float32_matmul_precision(before)


def test_nothing_is_left_behind() -> None:
    model, step = models.build("gpt2"), _step("gpt2", "decoder")

    # transformers itself leaves a hook on a model that was once asked for its attentions
    def state() -> Any:
        return [
            (
                list(module._forward_hooks),
                list(module._forward_pre_hooks),
                "forward" in vars(module),
            )
            for module in model.modules()
        ]

    untouched, before = state(), torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        folding.fold(step, _derivative(step), size=64)
        assert (
            torch.get_float32_matmul_precision() == "high"
        )  # what a user chose for the many products
    finally:
        torch.set_float32_matmul_precision(before)
    assert state() == untouched
