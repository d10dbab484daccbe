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
import torch
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
"""


def test_fused_gains_are_the_plain_ones() -> None:
    if importlib.util.find_spec("triton") is None:
        pytest.skip("NOT RUN: Triton is not installed (it comes with torch for CUDA)")
    subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, env={**os.environ, "TRITON_INTERPRET": "1"}
    )
