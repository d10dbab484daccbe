"""Effective attention A P, with P the projector onto the column space of T = V W_O: attention
without the part that has no effect on the output.

T has d_model columns, but at most d_head of them are linearly independent. If W_O has full row
rank, T and V have the same column space. If not, T has the column space of V times the directions
that W_O keeps. Therefore P = Q Q^T with Q a thin QR factor of a (source x d_head) matrix. Q is
computed from Cholesky factors in float64, for whole batches and all heads at once, and is refined
in a second pass if the values are float64. The Cholesky factors also bound the condition number.
(Nearly) rank-deficient heads use a singular value decomposition, one head at a time, and singular
values below `tolerance` times the largest count as zero.

If targets see different sources (causal masks, windows), each target has its own projector; see
`prefixes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mixlens.kernels.chunks import in_float64

_SAFE_CONDITION = 1e6  # below it, normal equations in float64 keep their digits


def tolerance(dtype: torch.dtype) -> float:
    """Return the relative size below which a singular value counts as rounding.

    It is 64 times the machine epsilon of the values.
    """
    return 64 * float(torch.finfo(dtype).eps)


@dataclass(frozen=True)
class Inverse:
    """Stores inverses of triangular Cholesky factors, and a mask of the matrices for which they are
    reliable.
    """

    factor: Float[Tensor, "*batch k k"]
    trusted: Bool[Tensor, "*batch"]


def inverse_factor(gram: Float[Tensor, "*batch k k"], least: float) -> Inverse:
    """Return L^-1 for gram = L L^T.

    The result is trusted if every singular value of L certainly exceeds `least` times the largest.
    """
    lower, info = torch.linalg.cholesky_ex(gram)
    identity = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device).expand_as(gram)
    lower = torch.where((info != 0)[..., None, None], identity, lower)
    inverse = torch.linalg.solve_triangular(lower, identity, upper=False)
    condition = torch.linalg.matrix_norm(lower) * torch.linalg.matrix_norm(
        inverse
    )  # Frobenius: never below the true one
    return Inverse(inverse, (info == 0) & (condition < min(1 / least, _SAFE_CONDITION)))


def value_columns(
    values: Float[Tensor, "batch head source d_head"],
    output_weight: Float[Tensor, "head d_head d_model"],
    lengths: Int[Tensor, " batch"],
    uncertain: Sequence[int] | None = None,
) -> Float[Tensor, "batch head source d_head"]:
    """Return, for every head, a float64 matrix with the same column space as T = V W_O.

    Its Frobenius norm is one, and rows of padding are zero. `uncertain` is the result of
    `uncertain_rows` for the output projection, if it is already known.
    """
    real = torch.arange(values.shape[2], device=values.device) < lengths[:, None]
    columns = in_float64(values) * real[:, None, :, None]
    least = tolerance(values.dtype)
    # the few others are checked closely
    for head in uncertain_rows(output_weight) if uncertain is None else uncertain:
        left, sizes, _ = torch.linalg.svd(in_float64(output_weight[head]), full_matrices=False)
        if sizes[-1] > least * sizes[0] and len(sizes) == columns.shape[-1]:
            continue
        basis = left * (sizes > least * sizes[0])
        columns[:, head, :, : basis.shape[1]] = columns[:, head] @ basis
        columns[:, head, :, basis.shape[1] :] = 0
    size: Tensor = torch.linalg.matrix_norm(columns)[..., None, None]
    return columns / size.clamp_min(1e-300)


def uncertain_rows(output_weight: Float[Tensor, "head d_head d_model"]) -> list[int]:
    """Return the heads whose output projection may not have full row rank.

    Adding columns can only increase singular values, so checking a subset of the columns may be
    enough.
    """
    few = output_weight[..., : 2 * output_weight.shape[1]]
    size, least = torch.linalg.matrix_norm(output_weight), torch.linalg.matrix_norm(few)
    # A product in the weights' own precision shows conditions far from its rounding.
    well: Tensor = inverse_factor(in_float64(few @ few.mT), 1e-3).trusted & (size < 10 * least)
    uncertain: list[int] = (~well).nonzero()[:, 0].tolist()
    return uncertain


def with_ones(
    columns: Float[Tensor, "batch head source k"], lengths: Int[Tensor, " batch"]
) -> Float[Tensor, "batch head source k1"]:
    """Append a column of ones to `columns`, so that projecting attention weights preserves their
    sum.
    """
    real = torch.arange(columns.shape[2], device=columns.device) < lengths[:, None]
    ones = real.to(columns.dtype) / lengths[:, None].sqrt()
    return torch.cat([columns, ones[:, None, :, None].expand(-1, columns.shape[1], -1, 1)], -1)


@dataclass(frozen=True)
class Projector:
    """The projector P = Q Q^T onto the column space of T = V W_O, for every head.

    If the rows of all sources except padding are linearly independent, P is the identity on these
    sources.
    """

    basis: Float[Tensor, "batch head source k"]
    whole: Bool[Tensor, "batch head"]
    lengths: Int[Tensor, " batch"]
    rank: Int[Tensor, "batch head"]

    def __call__(
        self, weights: Float[Tensor, "batch head target source"]
    ) -> Float[Tensor, "batch head target source"]:
        """Return effective attention: the attention weights, multiplied by the projector."""
        if bool(self.whole.all()):
            return self._real(weights)
        basis = self.basis.to(weights.dtype)
        projected = (weights @ basis) @ basis.mT
        return (
            projected
            if not bool(self.whole.any())
            else torch.where(self.whole[..., None, None], self._real(weights), projected)
        )

    def _real(self, weights: Tensor) -> Tensor:
        real = torch.arange(weights.shape[-1], device=weights.device) < self.lengths[:, None]
        return weights * real[:, None, None]


def projector(
    columns: Float[Tensor, "batch head source k"],
    lengths: Int[Tensor, " batch"],
    dtype: torch.dtype,
) -> Projector:
    """Return the projector onto the column space of each head's matrix.

    `dtype` is the dtype of the values.
    """
    least = tolerance(dtype)
    batch, heads, _, k = columns.shape
    rank = lengths[:, None].clamp_max(k).expand(batch, heads).clone()
    short = (lengths <= k)[:, None].expand(batch, heads)
    whole = (
        short & _independent_rows(columns, lengths, least)
        if bool(short.any())
        else torch.zeros_like(short)
    )
    basis, trusted = _orthonormal(columns, least, again=dtype == torch.float64)
    trusted = trusted & ~short
    basis = basis * trusted[..., None, None]
    for text, head in (~(whole | trusted)).nonzero().tolist():
        left, sizes, _ = torch.linalg.svd(
            columns[text, head, : int(lengths[text])], full_matrices=False
        )
        is_kept = sizes > least * sizes[0]
        basis[text, head, : left.shape[0], : left.shape[1]] = left * is_kept
        rank[text, head] = is_kept.sum()
    return Projector(basis, whole, lengths, rank)


def _orthonormal(
    columns: Float[Tensor, "batch head source k"], least: float, again: bool
) -> tuple[Tensor, Bool[Tensor, "batch head"]]:
    """Return an orthonormal basis of each column space, and a mask of the heads for which the basis
    is reliable.
    """
    first = inverse_factor(columns.mT @ columns, least)
    basis = columns @ first.factor.mT
    if again:  # the first pass leaves condition^2 units in the last place
        basis = basis @ inverse_factor(basis.mT @ basis, 0.1).factor.mT
    return basis, first.trusted


def _independent_rows(
    columns: Float[Tensor, "batch head source k"], lengths: Int[Tensor, " batch"], least: float
) -> Bool[Tensor, "batch head"]:
    """Return whether the rows of all sources except padding are certainly linearly independent, so
    that the null space is trivial.
    """
    gram = columns @ columns.mT
    size = gram.diagonal(dim1=-2, dim2=-1).amax(-1, keepdim=True).clamp_min(1e-300)
    padding = (torch.arange(gram.shape[-1], device=gram.device) >= lengths[:, None])[:, None] * size
    return inverse_factor(gram + torch.diag_embed(padding), least).trusted
