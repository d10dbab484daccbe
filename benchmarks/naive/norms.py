"""Norms of transformed vectors with all vectors in memory: head x target x source x d_model
numbers.

As in the norm analyzers of Kobayashi et al. (2020, 2021) and Modarressi et al. (2022): weighted
vectors of every head, their sum, the residual stream on the diagonal, and each norm as a division
by the standard deviation of its true input.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.naive.layer import RecordedLayer


def summed_vectors(layer: RecordedLayer) -> Tensor:
    """[target, source, d_model]: what each source writes, all heads together."""
    transformed = torch.einsum("hsv,hvd->hsd", layer.values, layer.dense)
    weighted = torch.einsum("hts,hsd->htsd", layer.attention, transformed)
    return weighted.sum(0)


def with_residual(layer: RecordedLayer) -> Tensor:
    identity = torch.eye(len(layer.hidden), dtype=layer.hidden.dtype, device=layer.hidden.device)
    return summed_vectors(layer) + torch.einsum("ts,td->tsd", identity, layer.hidden)


def through_norm(vectors: Tensor, norm: nn.LayerNorm, entering: Tensor) -> Tensor:
    """The vectors after a layer norm whose variance is that of `entering`, without its shift."""
    centred = entering - entering.mean(-1, keepdim=True)
    variance = centred.pow(2).mean(-1, keepdim=True)[:, None]
    normalised = torch.div(vectors - vectors.mean(-1, keepdim=True), (variance + norm.eps) ** 0.5)
    return torch.einsum("tsd,d->tsd", normalised, norm.weight)


@torch.no_grad()
def attention_norm(layer: RecordedLayer) -> Tensor:
    return torch.norm(summed_vectors(layer), dim=-1)


@torch.no_grad()
def attention_norm_res(layer: RecordedLayer) -> Tensor:
    return torch.norm(with_residual(layer), dim=-1)


@torch.no_grad()
def attention_norm_res_ln(layer: RecordedLayer) -> Tensor:
    return torch.norm(through_norm(with_residual(layer), layer.norm, layer.before_norm), dim=-1)


@torch.no_grad()
def globenc(layer: RecordedLayer) -> Tensor:
    vectors = through_norm(with_residual(layer), layer.norm, layer.before_norm)
    return torch.norm(through_norm(vectors, layer.second_norm, layer.before_second_norm), dim=-1)
