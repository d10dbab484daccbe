"""Compute norms of sums over heads without computing the sums: ||sum_h a_h f_h||^2 = a^T G a, with
G the head x head Gram matrix of one source's vectors.

Each pair of target and source takes head^2 operations instead of head * d_model, and each source
needs a head x head matrix. a^T G a is evaluated in float64 even for float32 vectors: if heads
cancel, a norm computed from a float32 square has only half of the significant digits.
Half-precision vectors have even fewer digits. On a GPU without the fused kernels, float32 is
therefore used for them, because it is several times as fast as float64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.kernels.chunks import CACHED, LARGEST, in_float64, slices, sources_first
from mixlens.kernels.decomposition import Decomposition, Vectors
from mixlens.kernels.fused import norms as fused_norms
from mixlens.kernels.fused.checked import (
    Combination,
    Sampler,
    Trial,
    run_checked,
    sample_size,
    widen,
)


def summed_norms(
    weights: Float[Tensor, "batch head target source"],
    vectors: Vectors,
    limit: int,
    *,
    causal: bool = False,
    ends: Sequence[int] | None = None,
) -> Float[Tensor, "batch target source"]:
    """Return ||sum_h weights_hij vectors_hj|| for every target i and source j.

    The function processes a few sources at a time; `limit` is the maximum size in bytes of each
    temporary tensor. Pass `causal` if the targets are all positions in order and see only
    themselves and earlier positions. If all tokens are both targets and sources, `ends` contains
    the number of real tokens of each text, and the norms of padding may stay 0.
    """
    return vectors.channels.norm(_norms_here(weights, vectors, limit, causal, ends))


def _norms_here(
    weights: Tensor, vectors: Vectors, limit: int, causal: bool, ends: Sequence[int] | None
) -> Tensor:
    """Return the norms over the channels that this process stores."""
    if vectors.few(weights.shape[2]):
        return _direct_norms(weights, vectors, limit)
    if not fused_norms.applies(weights):
        return _gram_norms(weights, vectors, limit, causal, ends)
    _, heads, targets, sources = weights.shape
    sizes = sample_size(targets), sample_size(sources)
    return run_checked(
        Combination(
            "norms",
            weights.device,
            (weights.dtype, vectors.values.dtype),
            (heads, vectors.width, *sizes, causal),
        ),
        fused=lambda: _fused_norms(weights, vectors, limit, causal),
        plain=lambda: _gram_norms(weights, vectors, limit, causal, ends),
        trial=lambda: _try_fused(weights, vectors, *sizes, causal),
    )


def _direct_norms(weights: Tensor, vectors: Vectors, limit: int) -> Tensor:
    """Compute the norms for a few targets from explicit sums, one target at a time."""
    batch, _, targets, sources = weights.shape
    parts = list(slices(sources, 12 * batch * vectors.width, limit))
    by_target = []
    for target in range(targets):
        sums = (vectors.write(weights[:, :, target, part], part, target) for part in parts)
        norms = [torch.linalg.vector_norm(each, dim=-1, dtype=weights.dtype) for each in sums]
        by_target.append(norms[0] if len(norms) == 1 else torch.cat(norms, -1))
    return by_target[0][:, None] if targets == 1 else torch.stack(by_target, 1)


def _fused_norms(weights: Tensor, vectors: Vectors, limit: int, causal: bool) -> Tensor:
    """Compute the norms for many targets with the fused GPU kernels.

    Besides the Gram matrices, the only large temporary tensor holds the vectors of a few sources at
    a time.
    """
    batch, heads, _, sources = weights.shape
    gram = weights.new_empty(batch, heads**2, sources, dtype=torch.float64)
    source_bytes = weights.element_size() * heads * vectors.width
    for texts in slices(batch, sources * source_bytes, limit):
        text_vectors = vectors.of_texts(texts)
        for part in slices(sources, (texts.stop - texts.start) * source_bytes, limit):
            fused_norms.fill_products(text_vectors.of(part), gram[texts, :, part])
    return fused_norms.norms_from(weights, gram, causal=causal)


def _try_fused(
    weights: Tensor, vectors: Vectors, targets: int, sources: int, causal: bool
) -> Trial:
    """Run both implementations on small inputs with the same dtypes and block shape as these
    tensors.
    """
    sampler, dtype = Sampler(weights.device), vectors.values.dtype
    heads = weights.shape[1]
    few = sampler.uniform(2, heads, targets, sources)
    few = few.tril() if causal else few
    random_vectors = sampler.vectors(2, heads, sources, vectors.width, dtype)
    return Trial(
        _fused_norms(few, random_vectors, LARGEST, causal),
        _gram_norms(few.double(), widen(random_vectors), CACHED, causal, None),
        1e-6 if dtype == torch.float32 else 1e-5,
    )


def _gram_norms(
    weights: Tensor, vectors: Vectors, limit: int, causal: bool, ends: Sequence[int] | None
) -> Tensor:
    """Compute the norms for many targets, a few texts at a time."""
    batch, heads, targets, sources = weights.shape
    on_cpu = weights.device.type == "cpu"
    limit = min(limit, CACHED) if on_cpu else limit
    dtype = weights.dtype if vectors.half and not on_cpu else in_float64(weights[..., :0]).dtype
    source_bytes = dtype.itemsize * heads * max(3 * targets, vectors.width + heads)
    norms = weights.new_zeros(batch, targets, sources)
    for texts in slices(batch, sources * source_bytes, limit):
        text_norms, text_weights, text_vectors = (
            norms[texts],
            weights[texts],
            vectors.of_texts(texts),
        )
        if ends is not None:
            end = max(ends[texts])
            text_norms, text_weights, text_vectors = (
                text_norms[:, :end, :end],
                text_weights[:, :, :end, :end],
                text_vectors.up_to(end),
            )
        parts = list(slices(text_weights.shape[-1], len(text_norms) * source_bytes, limit))
        _fill_norms(text_norms, text_weights, text_vectors, parts, causal, dtype)
    return norms


def _fill_norms(
    norms: Tensor,
    weights: Tensor,
    vectors: Vectors,
    parts: Sequence[slice],
    causal: bool,
    dtype: torch.dtype,
) -> None:
    """Write the norms into `norms`.

    The upcast copies of all blocks reuse one buffer, because allocating new memory takes as long as
    filling it.
    """
    batch, heads, targets, _ = weights.shape
    most = max((part.stop - part.start for part in parts), default=0)
    same = dtype == vectors.values.dtype
    copied = 0 if same else most
    room_for_vectors = weights.new_empty(batch, copied, heads, vectors.width, dtype=dtype)
    room_for_weights = weights.new_empty(batch, most, targets, heads, dtype=dtype)
    source = vectors.source(LARGEST)
    for part in parts:
        count, rows = part.stop - part.start, slice(part.start if causal else 0, targets)
        part_weights = sources_first(weights[:, :, rows, part])
        at_source = source(part).transpose(1, 2)
        if not same:
            at_source = room_for_vectors[:, :count].copy_(at_source)
        by_source = room_for_weights[:, :count, : part_weights.shape[2]].copy_(part_weights)
        squares = (by_source @ (at_source @ at_source.mT)).mul_(by_source).sum(-1)
        # Rounding may leave a tiny negative square.
        norms[:, rows, part] = squares.clamp_min_(0).sqrt_().mT.to(norms.dtype)


def part_norms(parts: Decomposition, limit: int) -> Float[Tensor, "batch target source"]:
    """Return ||T_ij|| for every target i and source j.

    The diagonal is computed from explicit sums, all other norms from Gram matrices.
    """
    norms = summed_norms(parts.weights, parts.vectors, limit, causal=parts.causal, ends=parts.ends)
    norms = norms * parts.scale.abs()[..., None]
    if not parts.own_is_source:
        return norms
    diagonal = torch.linalg.vector_norm(parts.diagonal, dim=-1)
    return parts.with_diagonal(norms, parts.vectors.channels.norm(diagonal))


def head_norms(
    weights: Float[Tensor, "batch head target source"], vectors: Vectors, limit: int
) -> Float[Tensor, "batch head target source"]:
    """Return ||A_hij f_hj|| for each head."""
    if vectors.gate is None:
        lengths = vectors.channels.norm(torch.linalg.vector_norm(vectors.of(), dim=-1))
        return weights * lengths[:, :, None]
    heads = range(weights.shape[1])
    return torch.stack([summed_norms(weights[:, [h]], vectors.head(h), limit) for h in heads], 1)


def add_squares(
    norms: Float[Tensor, "batch *head target source"],
) -> dict[str, Float[Tensor, "batch target *head source"]]:
    """Return the squared norms. Their sum over several targets is the squared norm of the stacked
    vectors of these targets.
    """
    return {"squares": norms.movedim(-2, 1).square()}


def take_roots(
    squares: Mapping[str, Float[Tensor, "batch target *head source"]],
) -> Float[Tensor, "batch *head target source"]:
    """Return the norms, given the squares from `add_squares`."""
    return squares["squares"].movedim(1, -2).sqrt()
