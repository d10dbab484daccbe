"""The fused norms against the norms of formed sums, run by Triton's interpreter: the same program
that a GPU compiles.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

PROGRAM = """
import torch
from mixlens.kernels import gram
from mixlens.kernels.fused import checked
from mixlens.kernels.fused import norms as fused_norms
from mixlens.kernels.decomposition import Vectors
torch.manual_seed(0)
fused_norms.applies = lambda weights: True
def made(weights, vectors, causal=False, limit=2000):
    batch, heads, sources, width = vectors.shape
    written = Vectors(vectors, torch.eye(width).expand(heads, width, width))
    return gram.summed_norms(weights, written, limit, causal=causal).double()
def expected(weights, vectors):
    whole = torch.einsum("bhij,bhjd->bijd", weights.double(), vectors.double())
    return whole.norm(dim=-1)
for heads, targets, sources, width in ((6, 37, 5, 300), (4, 9, 9, 32), (1, 33, 40, 20)):
    weights = torch.rand(2, heads, targets, sources)
    vectors = torch.randn(2, heads, sources, width)
    right = expected(weights, vectors)
    for limit in (2000, 2**20):  # some sources at a time, or all texts
        assert (made(weights, vectors, limit=limit) - right).abs().max() <= 1e-7 * right.max()
    if targets == sources:
        half = made(weights.tril(), vectors, causal=True)
        assert (half - right.tril()).abs().max() <= 1e-7 * right.max()

# One token is huge and heads nearly cancel: each source by its own size, not by the largest.
first = torch.randn(1, 1, 20, 64, dtype=torch.float64)
vectors = torch.cat([first, -first + 1e-6 * torch.randn_like(first)], 1)
vectors[:, :, 0] *= 1e5
vectors, weights = vectors.float(), torch.rand(1, 1, 20, 20).expand(1, 2, 20, 20)
apart = (made(weights, vectors) - expected(weights, vectors)).abs()
assert (apart.amax(1) <= 1e-7 * vectors.norm(dim=-1).amax(1)).all()

# Weights so small that their squares are no float32, and a NaN.
weights = torch.full((1, 2, 3, 2), 1e-30)
weights[0, 0, 0, 0] = torch.nan
norms = made(weights, torch.ones(1, 2, 2, 4))
assert norms[0, 0, 0].isnan() and abs(norms[0, 1, 1] / 4e-30 - 1) < 1e-6
assert checked._works and all(checked._works.values())  # no plain form took its place
"""


def test_fused_norms_are_those_of_formed_sums() -> None:
    if importlib.util.find_spec("triton") is None:
        pytest.skip("NOT RUN: Triton is not installed (it comes with torch for CUDA)")
    subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, env={**os.environ, "TRITON_INTERPRET": "1"}
    )
