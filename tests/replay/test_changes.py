"""The form of Value Zeroing that a GPU runs, by plain torch: the same distances as the layer's own
code gives, folded or not, for few targets and for all.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest
import torch

from mixlens import Lens
from mixlens.contracts import AttentionKind, Request
from mixlens.kernels.distances import prepared_for, separation
from mixlens.replay.layer_rest import LayerRest
from mixlens.replay.mlp import perceptron
from mixlens.replay.zeroed_sources import nothing_zeroed, sources_of
from mixlens.replay.zeroing import changed
from mixlens.replay.zeroing_delta_proof import block_distances
from mixlens.replay.zeroing_deltas import ByChanges
from mixlens.replay.zeroing_rows import ByRows
from tests.conformance.zoo import built, inputs


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "granite"])  # granite scales its sums
def test_distances_are_those_of_the_layers_code(name: str, distance: str, folded: bool) -> None:
    recording = Lens(built(name).double()).record(inputs(name))
    layer = recording.layers()[1]
    layer_rest = LayerRest(layer, AttentionKind.SELF)
    mlp = perceptron(layer, torch.float64)
    assert mlp is not None
    weights = layer_rest.site.weights
    batch, heads, targets, _ = weights.shape
    places = torch.arange(targets).expand(batch, targets)
    changes = ByChanges(layer_rest, mlp, places, distance=distance, folded=folded)
    rows, linked = ByRows(layer_rest, weights, places), (weights[1] != 0).any(0)
    for columns in (torch.arange(3), torch.tensor([1, 5])):
        few = sources_of(layer_rest.site, weights, linked, 1, columns, slice(0, heads))
        target = few.linked.nonzero()[:, 1] + few.targets.start
        unedited = rows(nothing_zeroed(layer_rest.site, 1, targets))[target]
        prepare = prepared_for(distance)
        expected = separation(distance, prepare(rows(few)), prepare(unedited))
        torch.testing.assert_close(changes(few), expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("per_head", [False, True])
@pytest.mark.parametrize("name", ["bert", "mistral"])  # padded texts, and a window
def test_blocks_of_a_map_are_those_of_its_linked_pairs(name: str, per_head: bool) -> None:
    given = dict(inputs(name))
    mask = torch.ones_like(given["input_ids"])
    mask[0, -1] = 0
    recording = Lens(built(name).double()).record({**given, "attention_mask": mask})
    layer = recording.layers()[1]
    layer_rest, mlp = LayerRest(layer, AttentionKind.SELF), perceptron(layer, torch.float64)
    assert mlp is not None
    weights = layer_rest.site.weights
    batch, _, targets, sources = weights.shape
    places = torch.arange(targets).expand(batch, targets)
    request = Request.resolved(recording, site=None, layers=None, targets=None, per_head=per_head)
    real = request.chosen(recording).real_pairs(places, sources)
    changes = ByChanges(layer_rest, mlp, places, distance="cosine", folded=True)
    few = 3 * targets  # rows: three sources at a time
    expected = changed(
        changes,
        layer_rest.site,
        weights,
        real,
        lambda *given: given[2],
        per_head=per_head,
        rows=few,
    )
    actual = block_distances(changes, weights, real, per_head=per_head, rows=few)
    assert (expected == 0).any()
    assert (expected != 0).any()
    torch.testing.assert_close(actual, expected, atol=1e-9, rtol=1e-9)


PROGRAM = """
import torch
import torch.nn.functional as F
from mixlens.kernels.fused.zeroing import ACTIVATIONS, OutputNorm, distances, hidden_change
from mixlens.replay.zeroing_delta_proof import block_distances
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
            (s - p) * inverse[..., None] + c for s, p, c in zip(sums, products, constants)
        ]
        expected = PLAIN[name](entering[0]) * (entering[1] if gated else 1) - base
        found = hidden_change(products, sums, base, activation=name, sign=-1.0, inverse=inverse,
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
