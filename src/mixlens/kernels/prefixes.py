"""Compute effective attention if targets see different sources (causal masks, windows, packed
texts).

Brunner's projector is defined for one value matrix that all targets share. A causal target i sees
only the rows j <= i of V, so the projector of the target is defined by these rows alone. Future
sources keep weight zero, and the product with V does not change. The projection of weights a is the
shortest vector with the same product z = a C, which is z G_i^-1 C^T with G_i = sum over visible j
of c_j c_j^T. This does not need an n x n projector per target, only a k x k matrix with one
Cholesky factor and one solve, for a few targets at a time. The error of the solve grows with the
condition number of C_i, not with its square.

G_i is singular while fewer than k rows are visible, or when tokens repeat (in the first layer of a
model with rotary positions, equal tokens have equal values). C is therefore expressed in a basis of
directions, ordered by the first row that needs each direction. For a prefix of rows, G_i is then
zero outside its leading block, and ones are added to the diagonal there. If all visible rows are
independent, A itself is the result. If there are only a few targets and their sources certainly
span all directions, this basis is not needed. Ill-conditioned targets are detected by their large
residual. They use a singular value decomposition, one target at a time.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mixlens.kernels.chunks import in_float64, slices
from mixlens.kernels.projector import inverse_factor, tolerance

_RESIDUAL = 1e-12  # relative; a solve that reaches it is right
_GROWTH = (
    1e6  # how much larger than the weights the solution's coefficients may be before rounding shows
)


def visible_projection(
    weights: Float[Tensor, "batch head target source"],
    columns: Float[Tensor, "batch head source k"],
    positions: Int[Tensor, "batch target"],
    visible: Bool[Tensor, "batch heads_or_one target source"],
    limit: int,
) -> tuple[Float[Tensor, "batch head target source"], Int[Tensor, "batch head"]]:
    """Project the attention of each target on the column space of its visible sources.

    Return the projected attention and, for each head, the rank of the matrix of all sources except
    padding.
    """
    least = tolerance(weights.dtype)
    direct = _full_rank_projection(weights, columns, visible, least, limit)
    if direct is not None:
        return direct
    directions, births = ordered_directions(columns, least)
    rotated = columns @ directions
    never = columns.shape[2]
    result = torch.empty_like(weights)
    batch, heads, _, sources = weights.shape
    bytes_each = 8 * batch * heads * (4 * columns.shape[-1] ** 2 + 4 * sources)
    for part in slices(weights.shape[2], bytes_each, limit):
        part_visible = visible[:, :, part]
        part_weights = in_float64(weights[:, :, part]) * part_visible
        counts = part_visible.sum(-1)
        prefix = (
            part_visible == (torch.arange(sources, device=part_visible.device) < counts[..., None])
        ).all(-1)
        prefix = prefix & (counts <= positions[:, None, part] + 1)  # nothing ahead of the target
        ends = torch.where(prefix, counts, never)
        born = births[:, :, None] < ends[..., None]
        gram = _visible_grams(rotated, part_visible, limit) + torch.diag_embed(
            (~born).to(part_weights.dtype)
        )
        shortest, right = _shortest(part_weights, rotated, gram, part_visible, born)
        exact = prefix & (born.sum(-1) == counts)  # independent rows: nothing to exchange
        shortest = torch.where(exact[..., None], part_weights, shortest)
        _repair(shortest, ~(right | exact), part_weights, columns, part_visible, least)
        result[:, :, part] = shortest.to(result.dtype)
    return result, (births < never).sum(-1)


def _full_rank_projection(
    weights: Float[Tensor, "batch head target source"],
    columns: Float[Tensor, "batch head source k"],
    visible: Bool[Tensor, "batch heads_or_one target source"],
    least: float,
    limit: int,
) -> tuple[Float[Tensor, "batch head target source"], Int[Tensor, "batch head"]] | None:
    """Return the projection for a few targets whose visible sources certainly span the whole row
    space, so that no basis is needed.

    Return None if the sources of any target may span less.
    """
    (batch, heads, targets, sources), k = weights.shape, columns.shape[-1]
    fits = 8 * batch * heads * targets * (4 * k * k + 4 * sources) <= limit
    if not fits or bool((visible.sum(-1) < k).any()):
        return None
    gram = _visible_grams(columns, visible, limit)
    inverse = inverse_factor(gram, least)
    # Rows that all miss a direction by `least` times the largest row have a smaller singular value.
    largest = sources**0.5 * torch.linalg.vector_norm(columns, dim=-1).amax(-1)[..., None]
    certain = torch.linalg.matrix_norm(inverse.factor) * least * largest < 1
    visible_weights, born = (
        in_float64(weights) * visible,
        torch.ones_like(gram[..., 0], dtype=torch.bool),
    )
    shortest, right = _shortest(visible_weights, columns, gram, visible, born)
    if not bool((right & certain & inverse.trusted).all()):
        return None
    return shortest.to(weights.dtype), torch.full((batch, heads), k, device=weights.device)


def _shortest(
    weights: Float[Tensor, "batch head target source"],
    rotated: Float[Tensor, "batch head source k"],
    gram: Float[Tensor, "batch head target k k"],
    visible: Bool[Tensor, "batch heads_or_one target source"],
    born: Bool[Tensor, "batch head target k"],
) -> tuple[Float[Tensor, "batch head target source"], Bool[Tensor, "batch head target"]]:
    """Return, for each target, the weights of smallest norm that have the same product with
    `rotated`, and a mask of the targets for which the solve is reliable.
    """
    lower, info = torch.linalg.cholesky_ex(gram)
    lower = torch.where(
        (info != 0)[..., None, None],
        torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device),
        lower,
    )
    product = weights @ rotated
    coefficients = torch.cholesky_solve(product[..., None], lower)[..., 0] * born
    shortest = (coefficients @ rotated.mT) * visible
    missing = product - shortest @ rotated
    size = torch.linalg.vector_norm(weights, dim=-1)
    near = torch.linalg.vector_norm(missing, dim=-1) <= _RESIDUAL * size
    calm = torch.linalg.vector_norm(coefficients, dim=-1) <= _GROWTH * size
    return shortest, (info == 0) & near & calm


def _visible_grams(
    rotated: Float[Tensor, "batch head source k"],
    visible: Bool[Tensor, "batch heads_or_one target source"],
    limit: int,
) -> Float[Tensor, "batch head target k k"]:
    """Return, for each target, the sum of c_j c_j^T over its visible sources.

    Sources that all targets share are summed in one product. The others use outer products.
    """
    batch, heads, _, k = rotated.shape
    by_all = visible.all(2)
    differing = (visible.any(2) & ~by_all).flatten(0, 1).any(0)
    agreed = rotated * (by_all & ~differing)[..., None]
    grams = (agreed.mT @ agreed)[:, :, None].expand(-1, -1, visible.shape[2], -1, -1).flatten(-2)
    columns = differing.nonzero()[:, 0]
    for part in slices(len(columns), 8 * batch * heads * k * k, limit):
        part_columns = rotated[:, :, columns[part]]
        outer = torch.einsum("bhsk,bhsl->bhskl", part_columns, part_columns).flatten(-2)
        grams = grams + visible[..., columns[part]].to(part_columns.dtype) @ outer
    return grams.reshape(batch, heads, -1, k, k)


def _repair(
    projected: Tensor,
    wrong: Tensor,
    rows: Tensor,
    columns: Tensor,
    visibility: Tensor,
    least: float,
) -> None:
    visibility, last, left = visibility.expand(projected.shape), None, projected
    for text, head, target in wrong.nonzero().tolist():
        visible = visibility[text, head, target].nonzero()[:, 0]
        if not len(visible):  # padding beyond a window sees nothing
            continue
        same = last is not None and last[:2] == (text, head) and torch.equal(last[2], visible)
        if not same:  # tokens of one image see the same sources
            left, sizes, _ = torch.linalg.svd(columns[text, head, visible], full_matrices=False)
            left, last = left * (sizes > least * sizes[0]), (text, head, visible)
        projected[text, head, target] = 0
        projected[text, head, target, visible] = (
            rows[text, head, target, visible] @ left
        ) @ left.mT


def ordered_directions(
    columns: Float[Tensor, "batch head source k"], least: float
) -> tuple[Float[Tensor, "batch head k k"], Int[Tensor, "batch head k"]]:
    """Return an orthonormal basis of the row space, ordered by the first row that needs each
    direction, and the index of that row.

    The function runs Gram-Schmidt over the rows, for all heads at once, until every head has all
    its directions. Missing directions are zero and get a row index one past the last row.
    """
    batch, heads, sources, k = columns.shape
    basis = columns.new_zeros(batch, heads, k, k)
    births = torch.full((batch, heads, k), sources, device=columns.device)
    count = torch.zeros(batch, heads, dtype=torch.long, device=columns.device)
    largest = torch.linalg.vector_norm(columns, dim=-1).cummax(-1).values
    slots = torch.arange(k, device=columns.device)
    for source in range(sources):
        if source >= k and source % 16 == 0 and bool((count == k).all()):
            break
        residual = columns[:, :, source, :, None]
        for _ in range(2):  # twice is enough for orthogonality to the last digit
            residual = residual - basis @ (basis.mT @ residual)
        size = torch.linalg.vector_norm(residual, dim=(-2, -1))
        new = (size > least * largest[:, :, source]) & (count < k)
        slot = (slots == count[..., None]) & new[..., None]
        basis = basis + slot[:, :, None] * (residual / size.clamp_min(1e-300)[..., None, None])
        births = torch.where(slot, source, births)
        count = count + new
    return basis, births
