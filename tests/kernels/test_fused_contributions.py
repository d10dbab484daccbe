"""The fused contributions against the plain sum, run by Triton's interpreter: the same program
that a GPU compiles.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

PROGRAM = """
import itertools
from dataclasses import replace
import torch
from mixlens.kernels import contributions
from mixlens.kernels.fused import checked
from mixlens.kernels.fused import contributions as fused_contributions
from tests.kernels.decompositions import in_float32, random_decomposition
from mixlens.kernels.fused.contributions import l1_contributions
torch.manual_seed(0)
for shape in ((2, 12, 37, 21, 100), (1, 4, 9, 9, 32), (1, 20, 33, 17, 70)):
    batch, heads, targets, sources, width = shape
    weights = torch.rand(batch, heads, targets, sources)
    vectors = torch.randn(heads, batch, sources, width).transpose(0, 1)
    scale, y = torch.rand(batch, targets), torch.randn(batch, targets, width)
    whole = torch.einsum("bhij,bhjd->bijd", weights, vectors) * scale[:, :, None, None]
    for shift in (0.0, 0.25):
        expected = (y[:, :, None].abs() - (whole - y[:, :, None] + shift).abs()).sum(-1)
        difference = l1_contributions(weights, vectors, scale, y, shift) - expected
        assert difference.abs().max() <= 1e-5 * expected.abs().max()
        if targets == sources:
            half = l1_contributions(weights.tril(), vectors, scale, y, shift, causal=True).tril()
            assert (half - expected.tril()).abs().max() <= 1e-5 * expected.abs().max()

# A limit on memory splits the sources; the scores stay the same. The interpreter computes products
# of bfloat16 wrongly.
fused_contributions.applies = lambda weights: True
for dtype, causal, count in itertools.product(
    (torch.float32, torch.float16), (False, True), (33, 50)
):
    wide = random_decomposition(count, seed=3, causal=causal)
    values, matrix = (part.to(dtype) for part in (wide.vectors.values, wide.vectors.matrix))
    vectors = replace(wide.vectors, values=values, matrix=matrix)
    parts = replace(in_float32(wide), vectors=vectors)
    whole = contributions.l1_contributions(parts, parts.total, 2**20, shift=0.1)
    source_bytes = vectors.of(slice(0, 1)).nbytes
    assert 20 * source_bytes < vectors.of().nbytes
    few = contributions.l1_contributions(parts, parts.total, 20 * source_bytes, shift=0.1)
    assert torch.allclose(few, whole, rtol=1e-5, atol=1e-5 * float(whole.abs().max()))
    expected = contributions._finished(
        parts, parts.total, 0.1, contributions._plain_contributions(
            parts, parts.total, 2**20, 0.1, None))
    assert (few - expected).abs().max() <= 1e-5 * expected.abs().max()
assert checked._works and all(checked._works.values())  # no plain form took its place
"""


def test_fused_contributions_equal_the_plain_ones() -> None:
    if importlib.util.find_spec("triton") is None:
        pytest.skip("NOT RUN: Triton is not installed (it comes with torch for CUDA)")
    subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, env={**os.environ, "TRITON_INTERPRET": "1"}
    )
