"""Compute the L1 contribution of each source to a target: ||y_i||_1 - ||y_i - T_ij||_1.

An L1 norm cannot be computed from a Gram matrix. Instead, for a few targets and sources at a time,
T_j is computed as the product of a (target x head) and a (head x d_model) matrix, so a full tensor
of targets x sources x d_model never exists. With causal attention, targets before the first of
these sources are skipped.

The difference is computed channel by channel, as sum_k (|y_k| - |y_k - t_k|). Subtracting two sums
over all channels would lose precision, because both are large and almost equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from mixlens.kernels.chunks import CACHED, LARGEST, product_bytes, slices, sources_first
from mixlens.kernels.decomposition import Decomposition
from mixlens.kernels.fused import contributions as fused_contributions
from mixlens.kernels.fused.checked import (
    Combination,
    Sampler,
    Trial,
    run_checked,
    sample_size,
    widen,
)

# a block has at least this many, if it can: products of a few sources with many targets take longer
_SOURCES = 16


def l1_contributions(
    parts: Decomposition,
    y: Float[Tensor, "batch target d_model"],
    limit: int,
    *,
    shift: float = 0.0,
    ends: Sequence[int] | None = None,
) -> Float[Tensor, "batch target source"]:
    """Return ||y_i||_1 - ||T_ij - y_i + shift||_1 for every target i and source j.

    If a target gives a source no weight at all, the result is 0. `y` has the same channels as the
    vectors of `parts`. `limit` is the maximum size in bytes of a temporary tensor. If all tokens
    are both targets and sources, `ends` contains the number of real tokens of each text, and the
    scores of padding may stay 0.
    """
    _, heads, targets, sources = parts.weights.shape
    if parts.vectors.few(targets):
        return _finished(parts, y, shift, _direct_contributions(parts, y, limit, shift))
    if not fused_contributions.applies(parts.weights):
        return _finished(parts, y, shift, _plain_contributions(parts, y, limit, shift, ends))
    sizes = sample_size(targets), sample_size(sources)
    contributions = run_checked(
        Combination(
            "contributions",
            y.device,
            (parts.weights.dtype, parts.vectors.values.dtype, y.dtype),
            (heads, y.shape[-1], *sizes, parts.causal),
        ),
        fused=lambda: _fused_contributions(parts, y, product_bytes(y.device), shift),
        plain=lambda: _plain_contributions(parts, y, limit, shift, ends),
        trial=lambda: _try_fused(parts, y, *sizes),
    )
    return _finished(parts, y, shift, contributions)


def _fused_contributions(
    parts: Decomposition, y: Float[Tensor, "batch target d_model"], limit: int, shift: float
) -> Float[Tensor, "batch target source"]:
    """Compute the contributions to many targets with the fused GPU kernel.

    The only large temporary tensors hold the vectors and weights of a few sources at a time.
    """
    batch, heads, targets, sources = parts.weights.shape
    vectors = parts.vectors
    vector_bytes = vectors.width * vectors.values.element_size()
    source_bytes = batch * heads * (vector_bytes + targets * parts.weights.element_size())
    scores = []
    for part in slices(sources, source_bytes, limit):
        first = part.start if parts.causal else 0  # earlier targets do not see these sources
        block_scores = fused_contributions.l1_contributions(
            parts.weights[:, :, first:, part],
            vectors.of(part),
            parts.scale[:, first:],
            y[:, first:],
            shift,
            causal=parts.causal,
        )
        scores.append(F.pad(block_scores, (0, 0, first, 0)))
    return scores[0] if len(scores) == 1 else torch.cat(scores, -1)


def _try_fused(
    parts: Decomposition, y: Float[Tensor, "batch target d_model"], targets: int, sources: int
) -> Trial:
    """Run the fused and the plain implementation on small data that has the dtypes and the block
    shape of these tensors.
    """
    sampler, width = Sampler(y.device), y.shape[-1]
    weights = sampler.uniform(2, parts.weights.shape[1], targets, sources)
    total, shift = sampler.normal(2, targets, width, dtype=y.dtype), 0.25
    small = Decomposition(
        weights=weights.tril() if parts.causal else weights,
        vectors=sampler.vectors(
            2, weights.shape[1], sources, width, dtype=parts.vectors.values.dtype
        ),
        scale=sampler.uniform(2, targets),
        own=total,
        own_is_source=False,
        constant=None,
        total=total,
        positions=torch.zeros(2, targets, dtype=torch.long, device=y.device),
        causal=parts.causal,
    )
    wide = replace(
        small,
        weights=small.weights.double(),
        vectors=widen(small.vectors),
        scale=small.scale.double(),
    )
    fused = _fused_contributions(small, total, LARGEST, shift)
    plain = _plain_contributions(wide, total.double(), CACHED, shift, None)
    if parts.causal:  # neither form fills in the rest
        fused, plain = fused.tril(), plain.tril()
    return Trial(fused, plain, 1e-5)


def _plain_contributions(
    parts: Decomposition,
    y: Float[Tensor, "batch target d_model"],
    limit: int,
    shift: float,
    ends: Sequence[int] | None,
) -> Float[Tensor, "batch target source"]:
    """Compute the contributions to many targets, a few texts at a time."""
    batch, heads, targets, sources = parts.weights.shape
    contributions = y.new_zeros(batch, targets, sources)
    text_bytes = y.element_size() * y.shape[-1] * sources * max(targets, heads)
    for texts in slices(batch, text_bytes, limit):
        scores, text_parts, outputs = contributions[texts], parts.of_texts(texts), y[texts]
        if ends is not None:
            end = max(ends[texts])
            scores, text_parts, outputs = (
                scores[:, :end, :end],
                text_parts.up_to(end),
                outputs[:, :end],
            )
        _fill_contributions(scores, text_parts, outputs, limit, shift)
    return contributions


def _fill_contributions(
    contributions: Float[Tensor, "batch target source"],
    parts: Decomposition,
    y: Float[Tensor, "batch target d_model"],
    limit: int,
    shift: float,
) -> None:
    """Compute the contributions for a few texts, so that their vectors stay in the cache."""
    batch, heads, targets, sources = parts.weights.shape
    width, size, offset = y.shape[-1], y.abs(), shift - y
    formed = parts.vectors.of().to(y.dtype).transpose(1, 2).contiguous()
    by_source = sources_first(parts.weights * parts.scale[:, None, :, None]).contiguous()
    row_bytes = batch * width * y.element_size()
    space = y.new_empty(
        min(max(limit, row_bytes), row_bytes * targets * sources) // y.element_size()
    )  # allocated once
    for rows in slices(targets, _SOURCES * row_bytes, limit):
        for part in slices(
            min(sources, rows.stop) if parts.causal else sources,
            row_bytes * (rows.stop - rows.start),
            limit,
        ):
            target_part = slice(max(rows.start, part.start), rows.stop) if parts.causal else rows
            weights = by_source[:, part, target_part].reshape(
                -1, target_part.stop - target_part.start, heads
            )
            block = space[: weights.shape[0] * weights.shape[1] * width]
            by_text = block.view(batch, -1, weights.shape[1], width)
            by_text.copy_(offset[:, None, target_part])  # the product adds to it: one pass fewer
            block = block.view(*weights.shape[:2], width)
            block.baddbmm_(weights, formed[:, part].reshape(-1, heads, width))
            lost = by_text.abs_().sub_(size[:, None, target_part]).sum(-1)
            contributions[:, target_part, part] = lost.mT.neg_()


def _direct_contributions(
    parts: Decomposition, y: Float[Tensor, "batch target d_model"], limit: int, shift: float
) -> Float[Tensor, "batch target source"]:
    """Compute the contributions to a few targets, one target at a time, with a matrix product that
    also sums over the heads.
    """
    batch, _, targets, sources = parts.weights.shape
    contributions = y.new_empty(batch, targets, sources)
    for part in slices(sources, 12 * batch * y.shape[-1], limit):
        for target in range(targets):
            weights = parts.weights[:, :, target, part] * parts.scale[:, None, target, None]
            vectors = parts.vectors.write(weights, part, target).to(y.dtype)
            contributions[:, target, part] = l1_contribution(vectors, y[:, None, target], shift)
    return contributions


def _finished(
    parts: Decomposition,
    y: Float[Tensor, "batch target d_model"],
    shift: float,
    contributions: Float[Tensor, "batch target source"],
) -> Float[Tensor, "batch target source"]:
    """Sum the scores over the channels of all processes, and set scores to zero where the attention
    weight is zero.

    If the residual stream counts as part of the target's own source, the scores on the diagonal are
    recomputed to include it.
    """
    channels = parts.vectors.channels
    contributions = channels.sum(contributions)
    if shift != 0.0:  # without it |y| - |0 - y| is exactly zero
        contributions = contributions * (parts.weights != 0).any(1)
    if not parts.own_is_source:
        return contributions
    diagonal = l1_contribution(parts.diagonal, y, shift)
    return parts.with_diagonal(contributions, channels.sum(diagonal))


def l1_contribution(
    part: Float[Tensor, "batch _ d_model"],
    y: Float[Tensor, "batch _ d_model"],
    shift: float = 0.0,
) -> Float[Tensor, "batch _"]:
    """Return ||y||_1 - ||part - y + shift||_1, the L1 contribution of `part` to each target's
    output `y`.
    """
    return (y.abs() - (part - y + shift).abs()).sum(-1)
