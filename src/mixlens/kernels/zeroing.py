"""What happens to every target when one source's value is set to zero: exact, without running whole sequences again.

With v_j = 0 the attention output of target i loses c_ij = sum_h A^h_ij f^h_j and nothing else changes before the rest of the layer, which
works on rows. So the layer's output for every pair (i, j) is the tail of the layer on the rows o_i - c_ij. Pairs with no attention between
them (the future, padding, outside a window) are left out: their distance is exactly zero. Pairs are taken a few sources at a time, so that
target x source x d_model numbers never exist at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mixlens.recording.site import Site

Rows = Float[Tensor, "row d_model"]
Run = Callable[[Int[Tensor, " row"], Int[Tensor, " row"], Rows], Rows]
"""The rest of a layer: texts, targets and attention outputs -> layer outputs."""

CHUNK_BYTES = 256 * 2**20


def rows_at_once(row_bytes: int, budget: int) -> int:
    """How many rows fit the budget (at most `CHUNK_BYTES`), each needing `row_bytes`."""
    return max(1, min(budget, CHUNK_BYTES) // max(1, row_bytes))


# ------------------------------------------------------------------------------------------------ distances


def standardised(rows: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
    """Rows with mean zero and variance one."""
    centred = rows - rows.mean(-1, keepdim=True)
    return centred / centred.square().mean(-1, keepdim=True).sqrt().clamp_min(torch.finfo(rows.dtype).tiny)


def unit(rows: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
    lengths: Tensor = rows.norm(dim=-1, keepdim=True)
    return rows / lengths.clamp_min(torch.finfo(rows.dtype).tiny)


def ranks(rows: Float[Tensor, "row d_model"]) -> Float[Tensor, "row d_model"]:
    """Rank of every number in its row; equal numbers share the mean of their ranks."""
    ordered = rows.sort(-1).values.contiguous()
    below = torch.searchsorted(ordered, rows.contiguous())
    up_to = torch.searchsorted(ordered, rows.contiguous(), right=True)
    return (below + up_to - 1).to(rows.dtype) / 2


def prepared_for(distance: str) -> Callable[[Rows], Rows]:
    """What is done to each representation before the two are compared: done once for the unedited ones."""
    if distance == "cosine":
        return unit
    if distance == "spearman":
        return lambda rows: unit(standardised(ranks(rows)))
    return lambda rows: rows


def separation(distance: str, a: Rows, b: Rows) -> Float[Tensor, " row"]:
    """The distance of prepared rows. On unit vectors 1 - cos = |a - b|^2 / 2, which keeps its digits where 1 - cos has none left."""
    if distance == "euclidean":
        return (a - b).square().sum(-1).sqrt()
    return (a - b).square().sum(-1) / 2


# --------------------------------------------------------------------------------------------------- pairs


def changed(
    run: Run,
    site: Site,
    weights: Float[Tensor, "batch head target source"],
    positions: Int[Tensor, "batch target"],
    real: Bool[Tensor, "batch target source"],
    compare: Callable[[Int[Tensor, " row"], Int[Tensor, " row"], Rows], Float[Tensor, " row"]],
    *,
    per_head: bool,
    rows: int,
) -> Float[Tensor, "batch heads_or_one target source"]:
    """`compare(texts, columns, outputs)` for every pair that attention connects, zero elsewhere; one head stands for all of them.

    `weights` are those of the wanted targets, whose `positions` in the sequence are given.
    """
    batch, heads, count, sources = weights.shape
    scores = weights.new_zeros(batch, heads if per_head else 1, count, sources)
    for texts, columns in _source_chunks(real, max(1, rows // (count * (heads if per_head else 1)))):
        taken = weights[texts, :, :, columns].transpose(1, 2)  # [chunk, target, head]
        vectors = torch.einsum("khe,hed->khd", site.values[texts, :, columns], site.output_weight)
        linked = (taken != 0) & real[texts, :, columns][..., None]
        if not per_head:
            linked = linked.any(-1, keepdim=True)
        for part in pieces(linked.nonzero(), rows):
            k, target, head = part.unbind(1)
            text, place = texts[k], positions[texts[k], target]
            lost = _lost(taken, vectors, k, target, head if per_head else None)
            outputs = run(text, place, site.projected[text, place] - lost)
            scores[text, head, target, columns[k]] = compare(text, target, outputs)
    return scores


def _lost(taken: Tensor, vectors: Tensor, k: Tensor, target: Tensor, head: Tensor | None) -> Rows:
    """c_ij of the chosen pairs, or one head's share of it."""
    if head is not None:
        return taken[k, target, head, None] * vectors[k, head]
    return torch.bmm(taken, vectors)[k, target]


def _source_chunks(real: Bool[Tensor, "batch target source"], size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Texts and source columns with at least one real pair, a few at a time."""
    pairs = real.any(1).nonzero()
    for part in pieces(pairs, size):
        yield part[:, 0], part[:, 1]


def pieces(tensor: Tensor, size: int) -> Iterator[Tensor]:
    """Consecutive parts along the first axis, none longer than `size`."""
    for start in range(0, len(tensor), size):
        yield tensor[start : start + size]
