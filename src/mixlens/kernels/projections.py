"""The projection of each source's contribution to a target on their sum: c_ij . o_i, with c_ij =
sum_h A_hij f_hj and o_i = sum_j c_ij.

The vectors are never computed: c_ij . o_i = sum_h A_hij v_hj . (W_h o_i), so a target takes sources
x d_model products, like its attention weights.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.kernels.chunks import slices
from mixlens.kernels.decomposition import Decomposition, Vectors
from mixlens.kernels.gram import head_norms


def projections(
    weights: Float[Tensor, "batch head target source"],
    vectors: Vectors,
    limit: int,
    *,
    per_head: bool = False,
) -> tuple[Float[Tensor, "batch *head target source"], Float[Tensor, "batch *head target"]]:
    """Return c_ij . o_i and |o_i|^2 of whole layers, or of each head; `limit` bounds a block in
    bytes.
    """
    batch, heads, targets, sources = weights.shape
    values, matrix = vectors.values.to(weights), vectors.matrix.to(weights)
    row_bytes = 2 * weights.element_size() * batch * heads * (sources + vectors.width)
    products, squares = [], []
    for rows in slices(targets, row_bytes, limit):
        few = weights[:, :, rows]
        mixed = _by_group(few, values)
        gate = None if vectors.gate is None else vectors.gate[:, rows].transpose(1, 2).to(weights)
        if gate is not None:
            mixed = mixed * gate
        written = torch.einsum("bhte,hed->bhtd", mixed, matrix)
        if not per_head:
            written = written.sum(1, keepdim=True)
        back = (
            torch.einsum("bktd,hed->bhte", written, matrix) if not per_head else written @ matrix.mT
        )
        if gate is not None:
            back = back * gate
        dots = _by_group(back, values.mT).mul_(few)
        products.append(dots if per_head else dots.sum(1))
        squared = written.square().sum(-1)
        squares.append(squared if per_head else squared[:, 0])
    return torch.cat(products, -2), torch.cat(squares, -1)


def _by_group(
    rows: Float[Tensor, "batch head target inner"],
    columns: Float[Tensor, "batch kv_head inner out"],
) -> Float[Tensor, "batch head target out"]:
    """Return a product with grouped keys or values, without repeating them for each head."""
    batch, heads, targets, inner = rows.shape
    grouped = rows.reshape(batch, columns.shape[1], -1, inner) @ columns
    return grouped.view(batch, heads, targets, -1)


def head_lengths(parts: Decomposition, limit: int) -> Float[Tensor, "batch head target source"]:
    """Return scale_i |A_hij f_hj|, from the products of the rows of each head's matrix."""
    weights, vectors = parts.weights, parts.vectors
    if vectors.gate is not None:
        return head_norms(parts, limit)
    values, matrix = vectors.heads().to(weights), vectors.matrix.to(weights)
    squares = ((values @ (matrix @ matrix.mT)) * values).sum(-1)
    return weights * parts.scale[:, None, :, None] * squares.clamp_min_(0).sqrt_()[:, :, None]
