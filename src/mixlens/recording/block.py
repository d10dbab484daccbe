"""An attention block with a fixed sigma of every norm: its output as a sum over sources."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.kernels.value_vectors import Vectors
from mixlens.structure.layer_structure import AttentionStructure
from mixlens.structure.norms import LinearisedNorm


@dataclass(frozen=True)
class Block:
    """The steps from the output projection to the block's output, with a fixed sigma of every
    norm.
    """

    maps: tuple[Callable[[Tensor], Tensor], ...]  # linear steps that every contribution passes
    inverses: tuple[Float[Tensor, "batch target"], ...]  # 1 / sigma of every norm on the way
    own: Float[Tensor, "batch target d_model"]  # the part of the residual
    total: Float[Tensor, "batch target d_model"]

    @functools.cached_property
    def scale(self) -> Float[Tensor, "batch target"]:
        """Return the factor of every contribution."""
        if not self.inverses:
            return torch.ones_like(self.total[..., 0])
        return functools.reduce(torch.mul, self.inverses)

    @classmethod
    def of(
        cls,
        structure: AttentionStructure,
        residual: Tensor,
        projected: Tensor,
        branch: Sequence[LinearisedNorm],
        output_norm: LinearisedNorm | None,
    ) -> Block:
        """Return the block. Without an output norm the total is the sum before it."""
        maps: list[Callable[[Tensor], Tensor]] = []
        inverses: list[Tensor] = []
        state = projected
        for norm in branch:
            maps.append(norm.linear)
            inverse = norm.inverse_sigma(state)
            inverses.append(inverse)
            state = norm.with_inverse(state, inverse)
        if isinstance(structure.branch_scale, Tensor) or structure.branch_scale != 1:
            maps.append(structure.scaled)
        own, total = structure.own(residual), structure.total(residual, state)
        if output_norm is not None:
            inverse = output_norm.inverse_sigma(total)
            maps.append(output_norm.linear)
            inverses.append(inverse)
            own = output_norm.linear(own) * inverse[..., None]
            total = output_norm.with_inverse(total, inverse)
        return cls(tuple(maps), tuple(inverses), own, total)


@dataclass(frozen=True)
class Parts:
    """A block's output as a sum over sources: y_i = sum_j T_ij + constant_i, T_ij = scale_i * sum_h
    A_hij vectors_hj (+ own_i if i = j).

    For cross-attention `own` belongs to no source and is added to the sum.
    """

    vectors: Vectors
    scale: Float[Tensor, "batch target"]
    own: Float[Tensor, "batch target d_model"]
    constant: Float[Tensor, "batch target d_model"] | None  # None if the parts passed a later norm
    total: Float[Tensor, "batch target d_model"]
