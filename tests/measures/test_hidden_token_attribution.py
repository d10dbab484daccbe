"""Hidden Token Attribution against one backward pass per output scalar."""

from __future__ import annotations

import functools

import pytest
import torch
import transformers as hf

from mixlens import InvalidInput, Lens, UnsupportedModel
from mixlens.replay import forward_derivative as derivatives
from mixlens.replay import jacobian
from mixlens.replay.intervention import LayerFunction
from tests.measures import models
from tests.measures import oracles_intervention as oracles

# These take a softmax in float32 whatever their dtype, and its two derivatives round differently.
ROUNDED = {"llama": 1e-6, "gpt_neox": 1e-6, "gemma2": 1e-6}


@functools.cache
def by_backward_passes(name: str, site: str, length: int) -> torch.Tensor:
    """Kept, because several tests ask for the same thousands of passes."""
    return oracles.hidden_token_attribution(
        name, site, models.build(name), models.inputs(name, length)
    )


@pytest.mark.parametrize("length", models.LENGTHS)
@pytest.mark.parametrize(("name", "site"), models.SITES)
def test_equals_one_backward_pass_per_scalar(name: str, site: str, length: int) -> None:
    expected = by_backward_passes(name, site, length)
    made = models.scores(
        "hidden_token_attribution", models.recording(name, length), site=site
    ).values[:, 0]
    torch.testing.assert_close(made, expected, atol=ROUNDED.get(name, 1e-10), rtol=0)


@pytest.mark.parametrize("name", ["bert", "bart"])
def test_with_respect_to_the_embedding_sum(name: str) -> None:
    model, site = models.build(name), models.recording(name, 6).sites[0]
    norm = model.embeddings.LayerNorm if name == "bert" else model.encoder.layernorm_embedding
    expected = oracles.hidden_token_attribution(
        name, site, model, models.inputs(name, 6), into=norm
    )
    made = models.scores(
        "hidden_token_attribution", models.recording(name, 6), wrt="embedding_sum"
    ).values[:, 0]
    torch.testing.assert_close(made, expected, atol=1e-10, rtol=0)
    other = models.scores("hidden_token_attribution", models.recording(name, 6)).values[:, 0]
    assert (made - other).abs().max() > 1e-4


def test_without_an_embedding_norm_there_is_no_embedding_sum() -> None:
    with pytest.raises(UnsupportedModel, match="wrt='embedding'"):
        models.scores("hidden_token_attribution", models.recording("gpt2", 6), wrt="embedding_sum")


@pytest.mark.parametrize(
    ("name", "site"), [("bert", "encoder"), ("gpt2", "decoder"), ("bart", "cross")]
)
def test_forward_and_reverse_mode_agree(
    name: str, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = models.recording(name, 6)
    forward = models.scores("hidden_token_attribution", recorded, site=site).values
    monkeypatch.setattr(jacobian, "forward_derivative", lambda step: None)
    torch.testing.assert_close(
        models.scores("hidden_token_attribution", recorded, site=site).values,
        forward,
        atol=1e-10,
        rtol=0,
    )


@pytest.mark.parametrize(("name", "site"), [("bert", "encoder"), ("bart", "cross")])
def test_duals_on_copies_agree_with_vmap(name: str, site: str) -> None:
    step = LayerFunction(models.recording(name, 6).layers(site)[0], 0, of_states=site == "cross")
    primals = (step.point,) if step.states is None else (step.point, step.states)
    tangents = tuple(torch.randn(3, *primal.shape, dtype=torch.float64) for primal in primals)
    one, other = (
        push(step)(primals, tangents) for push in (derivatives._by_vmap, derivatives._by_duals)
    )
    torch.testing.assert_close(one, other, atol=1e-12, rtol=0)


def test_a_layer_without_forward_derivative_falls_back_to_reverse_mode() -> None:
    model = models.randomised(
        hf.BloomModel(hf.BloomConfig(vocab_size=50, hidden_size=16, n_layer=2, n_head=4))
    )
    recorded = Lens(model).record(models.inputs("llama", 5))
    assert derivatives.forward_derivative(LayerFunction(recorded.layers()[0], 0)) is None
    made = models.scores("hidden_token_attribution", recorded).values[:, 0]
    oracles.ANATOMY["bloom", "decoder"] = oracles.Anatomy(
        lambda m: m.h, lambda layer: layer.self_attention, "query_key_value", "dense"
    )
    expected = oracles.hidden_token_attribution(
        "bloom", "decoder", model, models.inputs("llama", 5)
    )
    torch.testing.assert_close(made, expected, atol=1e-6, rtol=0)


def test_a_wrong_forward_derivative_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    step = LayerFunction(models.recording("bert", 6).layers()[0], 0)
    right = derivatives._by_vmap
    monkeypatch.setattr(
        derivatives,
        "_by_vmap",
        lambda step: lambda primals, tangents: 1.01 * right(step)(primals, tangents),
    )
    push = derivatives.forward_derivative(step)
    assert push is not None
    assert "_by_duals" in push.__qualname__


@pytest.mark.parametrize(
    ("name", "site"), [("bert", "encoder"), ("gpt2", "decoder"), ("bart", "cross")]
)
def test_probe_estimates_are_within_their_standard_errors(name: str, site: str) -> None:
    recorded = models.recording(name, 7)
    exact = models.scores("hidden_token_attribution", recorded, site=site).values
    estimate = models.scores("hidden_token_attribution", recorded, site=site, probes=64)
    error = estimate.extras["standard_error"]
    known = exact > 0
    off = ((estimate.values - exact) / error.clamp_min(1e-30))[known]
    assert off.abs().max() < 5
    assert 0.6 < off.square().mean().sqrt() < 1.6  # neither too proud nor too shy
    assert (error[known] / exact[known]).mean() < 0.15
    again = models.scores("hidden_token_attribution", recorded, site=site, probes=64)
    assert torch.equal(again.values, estimate.values)
    other = models.scores("hidden_token_attribution", recorded, site=site, probes=64, seed=1)
    assert not torch.equal(other.values, estimate.values)


@pytest.mark.parametrize("probes", [None, 8])
@pytest.mark.parametrize(
    ("name", "site"), [("bert", "encoder"), ("gpt2", "decoder"), ("bart", "cross")]
)
def test_padding_and_batching_change_nothing(name: str, site: str, probes: int | None) -> None:
    lengths = [4, 7]
    recorded = Lens(models.build(name)).record(models.padded_inputs(name, lengths))
    batched = models.scores("hidden_token_attribution", recorded, site=site, probes=probes).values
    for row, length in enumerate(lengths):
        alone = models.scores(
            "hidden_token_attribution",
            models.recording(name, length, seed=row),
            site=site,
            probes=probes,
        ).values[:, 0]
        torch.testing.assert_close(
            batched[:, row, : alone.shape[1], : alone.shape[2]], alone, atol=1e-10, rtol=0
        )


def test_rows_sum_to_one_and_the_future_is_zero() -> None:
    made = models.scores("hidden_token_attribution", models.recording("gpt2", 8)).values[:, 0]
    torch.testing.assert_close(made.sum(-1), torch.ones(2, 8, dtype=torch.float64))
    assert (made.triu(1) == 0).all()


def test_chosen_targets_and_layers_are_rows_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = models.recording("bert", 7)
    whole = models.scores("hidden_token_attribution", recorded).values
    monkeypatch.setattr("mixlens.kernels.chunks.LARGEST", 100_000)
    part = models.scores("hidden_token_attribution", recorded, layers=[1], targets=[3, -1]).values
    torch.testing.assert_close(part, whole[1:, :, [3, 6]], atol=1e-12, rtol=0)


def test_half_precision_is_close() -> None:
    model = hf.BertModel(hf.BertConfig(**models._SIZES)).eval()
    ids = models.inputs("bert", 6)
    wide = models.scores("hidden_token_attribution", Lens(model).record(ids)).values
    half = models.scores(
        "hidden_token_attribution", Lens(model.to(torch.bfloat16)).record(ids)
    ).values
    assert (half - wide).abs().max() < 0.02


def test_wrong_options_are_refused() -> None:
    recorded = models.recording("bert", 3)
    with pytest.raises(InvalidInput, match="embedding_sum"):
        models.scores("hidden_token_attribution", recorded, wrt="logits")
    with pytest.raises(InvalidInput, match="at least 2"):
        models.scores("hidden_token_attribution", recorded, probes=1)
    with pytest.raises(InvalidInput, match=r"not a sum of embeddings. Pass wrt='embedding'"):
        models.scores(
            "hidden_token_attribution",
            models.recording("bart", 4),
            site="cross",
            wrt="embedding_sum",
        )
