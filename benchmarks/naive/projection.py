"""Effective attention by a full singular value decomposition of T = V W_O, head by head.

Brunner et al. (2020), eq. 9, as Sun & Marasovic (2021) compute it: the left singular vectors beyond
the rank span the null space, and each row's projection onto them is taken away.
"""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.naive.layer import RecordedLayer


@torch.no_grad()
def effective_attention(layer: RecordedLayer) -> Tensor:
    """The mean over heads."""
    heads = []
    for weights, values, dense in zip(layer.attention, layer.values, layer.dense, strict=True):
        transformed = values @ dense
        left, sizes, _ = torch.linalg.svd(transformed, full_matrices=True)
        threshold = sizes.max() * max(transformed.shape) * torch.finfo(sizes.dtype).eps
        null = left[:, int((sizes > threshold).sum()) :]
        heads.append(weights - (weights @ null) @ null.T)
    return torch.stack(heads).mean(0)
