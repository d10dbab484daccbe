"""Push tangent vectors through layers, and sum their squared norms.

Source x d_model one-hot vectors give the norms of a Jacobian's blocks exactly. Gaussian ones
estimate them, because E|Jv|^2 = |J|_F^2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mixlens.kernels.chunks import chunked

Tangents = Float[Tensor, "tangent token d"]


@dataclass(frozen=True)
class SquaredNorms:
    """|J_ij|_F^2 for every step, and its variance if it is an estimate."""

    mean: Float[Tensor, "step target source"]
    variance: Float[Tensor, "step target source"] | None


@dataclass(frozen=True)
class Seeds:
    """Input vectors, one at a time: one-hot for all channels of every token, or `probes` Gaussian
    ones for each.
    """

    tokens: int
    width: int
    noise: Float[Tensor, "token probe width"] | None
    like: Tensor

    @classmethod
    def exact(cls, tokens: int, width: int, like: Tensor) -> Seeds:
        """Return every unit vector of every token, for exact norms."""
        return cls(tokens, width, None, like)

    @classmethod
    def gaussian(cls, tokens: int, width: int, probes: int, seed: int, like: Tensor) -> Seeds:
        """Return random vectors, `probes` for each token."""
        generator = torch.Generator().manual_seed(seed)
        noise = torch.randn(tokens, probes, width, generator=generator, dtype=torch.float64)
        return cls(tokens, width, noise.to(like), like)

    @property
    def per_token(self) -> int:
        """Return the number of vectors per token."""
        return self.width if self.noise is None else int(self.noise.shape[1])

    def chunks(self, size: int, length: int) -> Iterator[tuple[Int[Tensor, " tangent"], Tangents]]:
        """Yield tokens, and vectors [tangent, length, width] that are zero outside them."""
        for index in chunked(
            torch.arange(self.tokens * self.per_token, device=self.like.device), size
        ):
            token, number = index // self.per_token, index % self.per_token
            vectors = self.like.new_zeros(len(index), length, self.width)
            row = torch.arange(len(index), device=index.device)
            if self.noise is None:
                vectors[row, token, number] = 1
            else:
                vectors[row, token] = self.noise[token, number]
            yield token, vectors


class Sums:
    """Sums of squared norms in float64, for each seeded token."""

    def __init__(self, steps: int, tokens: tuple[int, int], seeds: Seeds, *, along: str) -> None:
        self.targets, self.sources = tokens
        self.seeds = seeds
        self.along = along
        other = self.targets if along == "source" else self.sources
        self.total = torch.zeros(
            steps, seeds.tokens, other, dtype=torch.float64, device=seeds.like.device
        )
        self.squares = torch.zeros_like(self.total)

    def add(self, step: int, token: Int[Tensor, " tangent"], vectors: Tangents) -> None:
        """Add the output of a step for vectors that entered at these tokens."""
        lengths = (
            torch.linalg.vector_norm(vectors[:, : self.total.shape[-1]], dim=-1).double().square()
        )
        lengths = lengths.to(self.total.device)
        self.total[step].index_add_(0, token, lengths)
        if self.seeds.noise is not None:
            self.squares[step].index_add_(0, token, lengths.square())

    def result(self) -> SquaredNorms:
        """Return the sums, or their means over the probes."""
        if self.seeds.noise is None:
            return SquaredNorms(self._oriented(self.total), None)
        count = self.seeds.per_token
        mean = self.total / count
        variance = (self.squares / count - mean.square()).clamp_min(0) / max(count - 1, 1)
        return SquaredNorms(self._oriented(mean), self._oriented(variance))

    def _oriented(self, tensor: Tensor) -> Tensor:
        return tensor.transpose(1, 2) if self.along == "source" else tensor
