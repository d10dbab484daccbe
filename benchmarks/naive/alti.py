"""ALTI with all transformed vectors in memory, as in the code of Ferrando et al. (2022).

The norm is applied to target x source vectors as two d_model x d_model matrices, one that centres
and one that scales; then come pairwise L1 distances. Their code adds 1e-6 to every difference
and leaves epsilon out of sigma; here both follow the paper, so that the maps agree.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.naive.layer import RecordedLayer
from benchmarks.naive.norms import with_residual


@torch.no_grad()
def alti(layer: RecordedLayer) -> Tensor:
    norm, y = layer.norm, layer.block_output
    gain = torch.diag(norm.weight)
    centring = torch.eye(len(gain), dtype=gain.dtype, device=gain.device) - 1 / len(gain)
    transformed = torch.einsum("tse,be->tsb", with_residual(layer), centring)
    transformed = torch.einsum("tsb,db->tsd", transformed, gain)
    sigma = (layer.before_norm.var(-1, unbiased=False) + norm.eps).sqrt()
    transformed = transformed / sigma[:, None, None]
    distance = functional.pairwise_distance(transformed, y[:, None], p=1, eps=0)
    gains = (torch.norm(y, p=1, dim=-1)[:, None] - distance).clamp_min(0)
    return gains / gains.sum(-1, keepdim=True)
