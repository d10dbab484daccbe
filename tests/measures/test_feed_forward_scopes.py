"""Norms after the MLP against vectors that are formed one by one, with a numeric integral of the
activation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mixlens import InvalidInput, Lens, UnsupportedModel
from mixlens.kernels.chords import chord
from mixlens.measures import refusal
from tests import reference
from tests.measures import models

SCOPES = ("attention_norm_ff", "attention_norm_ff_res", "attention_norm_ff_res_ln")


def integral(g: Callable[[Tensor], Tensor], start: Tensor, end: Tensor) -> Tensor:
    """The mean slope on the way, by midpoints."""
    total = torch.zeros_like(end)
    for step in range(2000):
        at = (start + (end - start) * (step + 0.5) / 2000).requires_grad_()
        total += torch.autograd.grad(g(at).sum(), at)[0] / 2000
    return total


def linear_norm(norm: Any, vectors: Tensor, whole: Tensor) -> Tensor:
    """The norm's linear part, its sigma that of the whole."""
    sigma = (whole.var(-1, unbiased=False, keepdim=True) + norm.eps).sqrt()
    return norm.weight * (vectors - vectors.mean(-1, keepdim=True)) / sigma.unsqueeze(-2)


def post_norm_layer(layer: Any, x: Tensor, bias: str) -> dict[str, Tensor]:
    """A layer of BERT with loops over targets: [target, source, d_model] for every scope."""
    own, n = layer.attention.self, len(x)
    out, up, down = layer.attention.output, layer.intermediate.dense, layer.output.dense
    heads, size = own.num_attention_heads, own.attention_head_size
    q, k, v = (part(x).view(n, heads, size) for part in (own.query, own.key, own.value))
    weights = (torch.einsum("ihe,jhe->hij", q, k) / size**0.5).softmax(-1)
    matrix = out.dense.weight.T.view(heads, size, -1)
    vectors = torch.einsum("hij,jhe,hed->ijd", weights, v, matrix)
    for i in range(n):
        vectors[i, i] += x[i]
    total = vectors.sum(1) + out.dense.bias
    u = linear_norm(out.LayerNorm, vectors, total)
    z = out.LayerNorm(total)
    p, whole = u @ up.weight.T, up(z)
    rest = whole - p.sum(1)
    g = layer.intermediate.intermediate_act_fn
    slope = integral(g, torch.zeros_like(whole) if bias == "joint" else rest, whole)
    ff = (p * slope[:, None]) @ down.weight.T
    after = z + down(g(whole))
    last = linear_norm(layer.output.LayerNorm, ff + u, after)
    return dict(zip(SCOPES, (ff, ff + u, last), strict=True))


@pytest.mark.parametrize("bias", ["joint", "fixed"])
def test_each_vector_formed_and_the_integral_taken(bias: str) -> None:
    recording = models.recording("bert", 9)
    model: Any = models.build("bert")
    for number, layer in enumerate(model.encoder.layer):
        x = recording.layers("encoder")[number].input[0]
        truth = {
            key: value.detach().norm(dim=-1)
            for key, value in post_norm_layer(layer, x, bias).items()
        }
        for scope in SCOPES:
            made = models.scores(scope, recording, bias=bias).values[number, 0]
            torch.testing.assert_close(made, truth[scope], atol=1e-6, rtol=1e-6)


@pytest.mark.smoke
@pytest.mark.parametrize("bias", ["joint", "fixed"])
@pytest.mark.parametrize(
    ("folder", "architecture", "scopes"),
    [
        ("bert", "BertModel", dict(zip(SCOPES, ("AtbFf", "AtbFfRes", "AtbFfResLn"), strict=True))),
        ("gpt2", "GPT2Model", dict(zip(SCOPES, ("AtbLnFf", "AtbLnFfRes"), strict=False))),
    ],
)
def test_reference_numbers(
    folder: str, architecture: str, scopes: dict[str, str], bias: str
) -> None:
    numbers = reference.arrays("kobayashi2024/numbers.npz")
    lens = Lens(reference.pretrained(f"kobayashi2024/{folder}", architecture))
    recording = lens.record({"input_ids": reference.tokens(numbers["input_ids"])})
    for scope, key in scopes.items():
        made = models.scores(scope, recording, bias=bias).values[:, 0].numpy()
        np.testing.assert_allclose(made, numbers[f"{folder}/{bias}/{key}"], atol=1e-12)


def test_some_targets_and_small_blocks_change_nothing() -> None:
    recording = models.recording("bert", 9)
    whole = models.scores(SCOPES[2], recording).values
    chosen = models.scores(SCOPES[2], recording, targets=[7, 2]).values
    torch.testing.assert_close(chosen, whole[:, :, [7, 2]], atol=1e-12, rtol=0)
    small = Lens(models.build("bert"), memory_budget=1).record(models.inputs("bert", 9))
    torch.testing.assert_close(models.scores(SCOPES[2], small).values, whole, atol=1e-12, rtol=0)


def test_scopes_that_do_not_exist_are_refused() -> None:
    gpt2, llama = models.recording("gpt2", 4), models.recording("llama", 4)
    assert "attention_norm_ff_res" in str(refusal(SCOPES[2], gpt2.structure))
    assert refusal(SCOPES[1], gpt2.structure) is None
    with pytest.raises(UnsupportedModel, match="gated"):
        models.scores(SCOPES[0], llama)
    parallel = models.recording("gpt_neox", 4)
    assert "parallel to the attention" in str(refusal(SCOPES[0], parallel.structure))
    with pytest.raises(InvalidInput, match="joint, fixed"):
        models.scores(SCOPES[0], gpt2, bias="none")


def test_a_chord_without_length_is_the_derivative() -> None:
    points = torch.tensor([0.0, -1.0, 2.0], dtype=torch.float64)
    made = chord(torch.tanh, points, points + torch.tensor([0.0, 1e-13, 1.0]))
    expected = 1 - points.tanh() ** 2
    expected[2] = torch.tanh(points[2] + 1) - torch.tanh(points[2])
    torch.testing.assert_close(made, expected, atol=1e-12, rtol=0)


def test_the_norm_in_front_of_the_feed_forward_part() -> None:
    """AtbLn of pre-norm layers, the only scope that ends there; no other layer has it."""
    numbers = reference.arrays("kobayashi2024/numbers.npz")
    lens = Lens(reference.pretrained("kobayashi2024/gpt2", "GPT2Model"))
    recording = lens.record({"input_ids": reference.tokens(numbers["input_ids"])})
    made = models.scores("attention_norm_res_ln", recording, next_norm=True)
    for bias in ("joint", "fixed"):  # the same: the activation comes later
        np.testing.assert_allclose(made.values[:, 0], numbers[f"gpt2/{bias}/AtbLn"], atol=1e-12)
    plain = models.scores("attention_norm_res_ln", recording)
    np.testing.assert_allclose(plain.values[:, 0], numbers["gpt2/joint/Atb"], atol=1e-12)
    assert (made.extras["mixing_ratio"] != plain.extras["mixing_ratio"]).all()
    for name in ("bert", "gpt_neox"):
        with pytest.raises(UnsupportedModel, match="scope does not exist"):
            models.scores("attention_norm_res_ln", models.recording(name, 5), next_norm=True)
