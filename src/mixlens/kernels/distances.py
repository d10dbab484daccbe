"""Distances between rows that keep their digits when the rows are almost equal."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

Rows = Float[Tensor, "row d_model"]
DISTANCES = ("cosine", "euclidean", "spearman")


def standardised(rows: Rows) -> Rows:
    """Rows with mean zero and variance one."""
    centred = rows - rows.mean(-1, keepdim=True)
    return centred / centred.square().mean(-1, keepdim=True).sqrt().clamp_min(
        torch.finfo(rows.dtype).tiny
    )


def unit(rows: Rows) -> Rows:
    """Rows divided by their length; a row of zeros stays."""
    lengths: Tensor = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    return rows / lengths.clamp_min(torch.finfo(rows.dtype).tiny)


def ranks(rows: Rows) -> Rows:
    """Rank of every number in its row; equal numbers share the mean of their ranks."""
    ordered = rows.sort(-1).values.contiguous()
    below = torch.searchsorted(ordered, rows.contiguous())
    up_to = torch.searchsorted(ordered, rows.contiguous(), right=True)
    return (below + up_to - 1).to(rows.dtype) / 2


def prepared_for(distance: str) -> Callable[[Rows], Rows]:
    """What is done to each representation before the two are compared: done once for the unedited
    ones.
    """
    if distance == "cosine":
        return unit
    if distance == "spearman":
        return lambda rows: unit(standardised(ranks(rows)))
    return lambda rows: rows


def separation(distance: str, a: Rows, b: Rows) -> Float[Tensor, " row"]:
    """The distance of prepared rows.

    On unit vectors 1 - cos = |a - b|^2 / 2, which keeps its digits where 1 - cos has none left.
    """
    length: Tensor = torch.linalg.vector_norm(a - b, dim=-1)
    return length if distance == "euclidean" else length.square() / 2
