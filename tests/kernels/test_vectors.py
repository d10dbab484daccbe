"""Vectors are the same whether they are computed at once or a few at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from mixlens.kernels.chunks import LARGEST, rows_at_once
from mixlens.kernels.decomposition import Vectors


def test_vectors_are_the_same_however_many_fit() -> None:
    torch.manual_seed(0)
    vectors = Vectors(torch.randn(2, 2, 5, 3).double(), torch.randn(4, 3, 6).double())
    formed, one_by_one = (vectors.source(limit) for limit in (10**6, 1))
    for part in (slice(0, 2), slice(2, 5)):
        torch.testing.assert_close(formed(part), one_by_one(part), atol=1e-12, rtol=0)
        values = vectors.values[:, :, part].repeat_interleave(2, 1)
        torch.testing.assert_close(formed(part), values @ vectors.matrix, atol=1e-12, rtol=0)
    with pytest.raises(ValueError, match="differ for each target"):
        replace(vectors, gate=torch.ones(2, 5, 4, 3)).of()


def test_rows_at_once_depend_on_the_device() -> None:
    budget, row = 8 * LARGEST, 1000
    assert rows_at_once(row, budget) == LARGEST // row
    processor, gpu = (rows_at_once(row, budget, torch.device(name)) for name in ("cpu", "cuda"))
    assert processor <= LARGEST // row < gpu <= budget // row
    assert rows_at_once(10**12, budget) == 1
