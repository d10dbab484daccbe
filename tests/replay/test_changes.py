"""The fast form of Value Zeroing by plain torch, folded or not, for few targets and for all: the
same distances as the layer's own code gives. The fused steps are compared with the plain ones.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from mixlens import Lens
from mixlens.contracts import AttentionKind
from mixlens.kernels.distances import Distance
from mixlens.kernels.fused import checked
from mixlens.kernels.fused import zeroing as fused
from mixlens.measures import value_zeroing
from mixlens.replay import zeroing_steps
from mixlens.replay.layer_rest import LayerRest
from mixlens.replay.zeroing_fast import FastZeroing, read_mlp
from mixlens.replay.zeroing_literal import LiteralZeroing, ZeroedBlock
from tests.conformance.zoo import built, inputs


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("distance", [Distance("cosine"), Distance("spearman", normalised=True)])
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "granite"])  # granite scales its sums
def test_distances_are_those_of_the_layers_code(
    name: str, distance: Distance, folded: bool
) -> None:
    recording = Lens(built(name).double()).record(inputs(name))
    layer_rest = LayerRest(recording.layers()[1], AttentionKind.SELF)
    mlp = read_mlp(layer_rest)
    assert mlp is not None
    weights = layer_rest.site.weights
    batch, _, targets, _ = weights.shape
    places = torch.arange(targets).expand(batch, targets)
    fast = FastZeroing(layer_rest, mlp, weights, lambda t, _: t, distance, folded=folded)
    literal = LiteralZeroing(layer_rest, weights, places, distance)
    for targets_of_block, columns in ((slice(0, targets), slice(0, 3)), (slice(2, 3), slice(1, 6))):
        block = ZeroedBlock(slice(0, batch), targets_of_block, columns)
        linked = weights[:, :, targets_of_block, columns].any(1)
        expected = literal.distances(block, linked)
        atol = 1e-6 if distance.name == "cosine" else 2e-3  # ranks jump
        torch.testing.assert_close(fast.distances(block, linked), expected, atol=atol, rtol=1e-5)
        assert expected.max() > 1e-3


@pytest.mark.parametrize("per_head", [False, True])
@pytest.mark.parametrize("name", ["bert", "mistral"])  # padded texts, and a window
def test_few_sources_at_a_time_give_the_same(
    name: str, per_head: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = dict(inputs(name))
    mask = torch.ones_like(given["input_ids"])
    mask[0, -1] = 0
    lens, padded = Lens(built(name).double()), {**given, "attention_mask": mask}

    def scores() -> list[Any]:
        return [maps.scores for maps in lens.measure("value_zeroing", padded, per_head=per_head)]

    expected = scores()
    monkeypatch.setattr(value_zeroing, "rows_at_once", lambda *_: 3 * mask.shape[1])
    for own, whole in zip(scores(), expected, strict=True):
        torch.testing.assert_close(torch.tensor(own), torch.tensor(whole), atol=1e-9, rtol=1e-9)
        assert (own != 0).any()
    if name == "mistral":
        assert (expected[0] == 0).any()


PROGRAM = """
import torch
import torch.nn.functional as F
from mixlens.kernels.fused.zeroing import ACTIVATIONS, OutputNorm, distances, hidden_change
from mixlens.replay.mlp import ACTIVATIONS as PLAIN
torch.manual_seed(0)
sources, targets, width = 2, 3, 40
for name in ACTIVATIONS:
    for gated in (False, True):
        products = [torch.randn(sources, targets, width) for _ in range(1 + gated)]
        sums = [torch.randn(targets, width) for _ in products]
        base, inverse = torch.randn(targets, width), torch.rand(sources, targets)
        constants = [torch.randn(width) for _ in products]
        entering = [
            (s + p) * inverse[..., None] + c for s, p, c in zip(sums, products, constants)
        ]
        expected = PLAIN[name](entering[0]) * (entering[1] if gated else 1) - base
        found = hidden_change(products, sums, base, activation=name, inverse=inverse,
                              constants=constants)
        assert (found - expected).abs().max() <= 1e-5 * expected.abs().max(), name
change, stream = torch.randn(sources, targets, width) / 50, torch.randn(sources, targets, width)
branch, unedited = torch.randn(targets, width), torch.randn(targets, width)
scale = torch.rand(width)
norm = OutputNorm(gain=torch.rand(width), shift=torch.rand(width), epsilon=1e-5, centred=True)
for used in (None, norm):
    z = 0.7 * stream + scale * (branch + change)
    z = z if used is None else F.layer_norm(z, (width,), norm.gain, norm.shift, 1e-5)
    expected = 1 - F.cosine_similarity(z, unedited.expand_as(z), dim=-1)
    found = distances(change, stream, branch, unedited, distance="cosine", residual_scale=0.7,
                      branch_scale=scale, norm=used)
    assert (found - expected).abs().max() <= 1e-5 * expected.abs().max()
"""


def test_fused_steps_are_the_plain_ones() -> None:
    if importlib.util.find_spec("triton") is None:
        pytest.skip("NOT RUN: Triton is not installed (it comes with torch for CUDA)")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, env=environment)


def test_kernels_that_do_not_run_are_replaced_by_plain_steps(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As on a GPU whose Triton is missing or fails: the log names both kernels."""
    lens, text = Lens.bundled(), "The old dog saw a bird."
    expected: Any = lens.measure("value_zeroing", text)

    def fail() -> Any:
        raise RuntimeError("no kernels here")

    monkeypatch.setattr(zeroing_steps, "_can_be_fused", lambda tensor: True)
    monkeypatch.setattr(fused, "_kernels", fail)
    monkeypatch.setattr(checked, "_works", {})
    with caplog.at_level(logging.INFO, logger="mixlens"):
        made: Any = lens.measure("value_zeroing", text)
    assert "`hidden_change` is replaced" in caplog.text
    assert "`distances` is replaced" in caplog.text
    np.testing.assert_array_equal(made.scores, expected.scores)
