"""Information flow routes: loops over every part of every sum, and the authors' numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mixlens import InvalidInput, Lens, UnsupportedModel
from mixlens.recording.recording import Recording
from tests import reference
from tests.measures import models, oracles


@pytest.fixture(scope="module")
def recorded() -> Recording:
    numbers = reference.arrays("alti_logit/ifr.npz")
    return Lens(reference.alti_logit()).record({"input_ids": reference.tokens(numbers["ids"])})


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("variant", "file", "tolerance"),
    [("released", "ifr", 1e-10), ("paper", "ours_clean_variant", 1e-10), ("paper", "ifr", 5e-5)],
)
def test_shares_are_the_authors(
    recorded: Recording, variant: str, file: str, tolerance: float
) -> None:
    numbers = reference.arrays(f"alti_logit/{file}.npz")
    heads = models.scores("flow_routes", recorded, per_head=True, variant=variant)
    expected = numbers["attn_edge"].transpose(0, 3, 1, 2)
    np.testing.assert_allclose(heads.values[:, 0].numpy(), expected, atol=tolerance)
    extras = {key: value[:, 0].numpy() for key, value in heads.extras.items()}
    for key, name in (
        ("residual_share", "attn_resid"),
        ("feed_forward_share", "ffn_edge"),
        ("feed_forward_residual_share", "ffn_resid"),
    ):
        np.testing.assert_allclose(extras[key], numbers[name], atol=tolerance)
    merged = expected.sum(1)
    merged[:, np.arange(7), np.arange(7)] += numbers["attn_resid"]
    made = models.scores("flow_routes", recorded, variant=variant).values[:, 0].numpy()
    np.testing.assert_allclose(made, merged, atol=3 * tolerance)


# ------------------------------------------------------------------------------------- the equation


def _nearer(total: Tensor, part: Tensor) -> float:
    return max(0.0, float(total.abs().sum() - (total - part).abs().sum()))


def _attention_loops(block: oracles.Block, i: int) -> tuple[Tensor, float]:
    """Shares of one target, each vector with the value bias that it has."""
    y, heads = block.output(i), len(block.f)
    gains = torch.zeros(heads, block.shape[1]).double()
    for h in range(heads):
        for j in range(block.shape[1]):
            written = block.attention[h, i, j] * block.f[h, j]
            gains[h, j] = _nearer(y, block.normed(i, block.branch_part(i, written)))
    own = _nearer(y, block.normed(i, block.residual[i]))
    whole = gains.sum() + own
    return gains / whole, own / float(whole)


@pytest.mark.parametrize("length", models.LENGTHS)
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "gemma2", "gpt_neox"])
def test_agrees_with_the_loops(name: str, length: int) -> None:
    recording = models.recording(name, length)
    made = models.scores("flow_routes", recording, per_head=True, value_bias=True)
    blocks = oracles.blocks_checked(name, models.build(name), models.inputs(name, length))
    for layer, block in enumerate(blocks):
        for i in range(length):
            heads, residual = _attention_loops(block, i)
            shares = made.values[layer, 0, :, i]
            torch.testing.assert_close(shares, heads, atol=1e-10, rtol=0)
            assert float(made.extras["residual_share"][layer, 0, i]) == pytest.approx(residual)


def test_without_the_value_bias_is_the_same_model_with_it_in_the_output_bias() -> None:
    """Weights sum to one: the bias may as well be part of the output projection's."""
    model, given = models.build("gpt2"), models.inputs("gpt2", 9)
    expected = models.scores("flow_routes", Lens(model).record(given)).values
    folded = models.BUILDERS["gpt2"]().double().eval()
    folded.load_state_dict(model.state_dict())
    folded.config._attn_implementation = "eager"
    with torch.no_grad():
        for layer in folded.h:
            bias = layer.attn.c_attn.bias
            layer.attn.c_proj.bias += bias[32:] @ layer.attn.c_proj.weight
            bias[32:] = 0
    for value_bias in (False, True):
        made = models.scores("flow_routes", Lens(folded).record(given), value_bias=value_bias)
        torch.testing.assert_close(made.values, expected, atol=1e-10, rtol=0)
    kept = models.scores("flow_routes", Lens(model).record(given), value_bias=True).values
    assert float((kept - expected).abs().max()) > 0.01


@pytest.mark.parametrize("name", ["bert", "gpt2", "gpt_neox", "gemma2"])
def test_feed_forward_shares_are_those_of_the_layer_sum(name: str) -> None:
    """By modules: what the last sum of each layer added up."""
    model, length = models.build(name), 5
    made = models.scores("flow_routes", models.recording(name, length), value_bias=True)
    blocks = oracles.blocks_checked(name, model, models.inputs(name, length))
    layers = {"bert": lambda: model.encoder.layer, "gpt2": lambda: model.h}
    modules = layers.get(name, lambda: model.layers)()
    added: dict[str, Any] = {
        "bert": lambda layer: layer.output.dense,
        "gpt2": lambda layer: layer.mlp,
        "gpt_neox": lambda layer: layer.mlp,
        "gemma2": lambda layer: layer.post_feedforward_layernorm,
    }
    for number, (layer, block) in enumerate(zip(modules, blocks, strict=True)):
        seen: list[Tensor] = []
        handle = added[name](layer).register_forward_hook(
            lambda _, __, output: seen.append(output.detach()[0])  # noqa: B023
        )
        with torch.no_grad():
            model(**models.inputs(name, length))
        handle.remove()
        for i in range(length):
            parts = [seen[0][i], block.output(i)]
            total = parts[0] + parts[1]
            if name == "bert":
                norm = block.second_norm
                assert norm is not None
                sigma = norm.sigma(total)
                parts = [norm.linear(part) / sigma for part in parts]
                total = norm.linear(total) / sigma + norm.shift
            gains = [_nearer(total, part) for part in parts]
            for key, gain in zip(
                ("feed_forward_share", "feed_forward_residual_share"), gains, strict=True
            ):
                share = float(made.extras[key][number, 0, i])
                assert share == pytest.approx(gain / sum(gains), abs=1e-9)


def test_rows_are_those_of_whole_maps() -> None:
    for name in ("bert", "llama"):
        lens, given = Lens(models.build(name)), models.inputs(name, 9)
        for per_head in (False, True):
            whole = lens.measure("flow_routes", given, per_head=per_head)
            rows = lens.measure("flow_routes", given, per_head=per_head, targets=[4, 8])
            np.testing.assert_allclose(
                rows.scores,
                whole.scores[..., [4, 8], :],
                atol=1e-7,
            )


def test_options_and_refusals() -> None:
    with pytest.raises(InvalidInput, match="paper or released"):
        models.scores("flow_routes", models.recording("gpt2", 3), variant="theirs")
    with pytest.raises(UnsupportedModel, match="two stacks"):
        Lens(models.build("bart")).measure("flow_routes", models.inputs("bart", 5), site="decoder")
