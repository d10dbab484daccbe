"""Compute distances between representations accurately, even if they are almost equal."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

DISTANCES = ("cosine", "euclidean", "spearman")


@dataclass(frozen=True)
class Distance:
    """Computes a distance between representations, selected by name. With `normalised`,
    representations are first scaled to mean zero and variance one.

    The "projection" distance is the signed inner product of the change a - b with the second
    representation b. Together with the Euclidean distance, it gives the angle between stacked
    representations.
    """

    name: str
    normalised: bool = False

    def prepare(self, states: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
        """Standardise, rank or scale representations as the distance requires.

        Call this before `between`.

        If you compare a representation several times, prepare it only once.
        """
        if self.normalised:
            states = standardise(states)
        if self.name == "cosine":
            return _unit(states)
        if self.name == "spearman":
            return _unit(standardise(_rank(states)))
        return states

    def between(
        self, a: Float[Tensor, "*rows d_model"], b: Float[Tensor, "*others d_model"]
    ) -> Float[Tensor, "*rows"]:
        """Return the distance between two representations from `prepare`.

        For unit vectors, 1 - cos = |a - b|^2 / 2. The right-hand side is accurate even where 1 -
        cos suffers from cancellation.
        """
        if self.name == "projection":
            return ((a - b) * b).sum(-1)
        length: Tensor = torch.linalg.vector_norm(a - b, dim=-1)
        return length if self.name == "euclidean" else length.square() / 2


def standardise(states: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
    """Scale representations to mean zero and variance one over their channels."""
    centred = states - states.mean(-1, keepdim=True)
    return centred / centred.square().mean(-1, keepdim=True).sqrt().clamp_min(
        torch.finfo(states.dtype).tiny
    )


def _unit(states: Tensor) -> Tensor:
    """Divide each vector by its length. Zero vectors stay zero."""
    lengths: Tensor = torch.linalg.vector_norm(states, dim=-1, keepdim=True)
    return states / lengths.clamp_min(torch.finfo(states.dtype).tiny)


def _rank(states: Tensor) -> Tensor:
    """Return the rank of every value within its vector. Ties get the mean of their ranks."""
    ordered = states.sort(-1).values.contiguous()
    below = torch.searchsorted(ordered, states.contiguous())
    up_to = torch.searchsorted(ordered, states.contiguous(), right=True)
    return (below + up_to - 1).to(states.dtype) / 2
