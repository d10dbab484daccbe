"""Squared Frobenius norms of the blocks of d e_i / d x_j, for every layer of a stack at once.

J_ij is the derivative of a layer's output e_i at token i with respect to the first layer's input
x_j at token j. In forward mode, a tangent v at one source token is pushed from layer to layer, and
yields the Jacobian-vector product of every layer. With one-hot vectors for every token and channel
(source x d_model), the norms are exact. With Gaussian vectors, they are estimated, because E|Jv|^2
= |J|_F^2.

Layers are linearised by `forward_derivative`. If a layer has no forward derivative (for example, a
custom autograd function without one), mixlens uses reverse mode, which yields the same numbers with
one backward pass from every output of every layer.

With many tangents, it is faster to fold everything after a layer's attention into one matrix per
target (`folding`). The matrices of all layers are kept if they fit in memory. If not, the tangents
are processed in bands. Each band has as many tangents as fit in memory, and the matrices of a layer
are recomputed for each band.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mixlens.kernels.chunks import split_chunks
from mixlens.replay.folding import fold, folded_bytes, is_worth_folding
from mixlens.replay.forward_derivative import Push, Step, forward_derivative

Tangents = Float[Tensor, "tangent token d"]


@dataclass(frozen=True)
class SquaredNorms:
    """The squared norms |J_ij|_F^2 for every layer.

    If the norms are estimated with Gaussian vectors, `variance` is the variance of the estimate,
    else None.
    """

    mean: Float[Tensor, "step target source"]
    variance: Float[Tensor, "step target source"] | None


@dataclass(frozen=True)
class Seeds:
    """The vectors that are pushed through the layers: one-hot vectors for all channels of every
    token, or a few Gaussian vectors per token.
    """

    tokens: int
    width: int
    noise: Float[Tensor, "token probe width"] | None
    like: Tensor

    @classmethod
    def exact(cls, tokens: int, width: int, like: Tensor) -> Seeds:
        """Use all unit vectors of every token, for exact norms."""
        return cls(tokens, width, None, like)

    @classmethod
    def gaussian(cls, tokens: int, width: int, probes: int, seed: int, like: Tensor) -> Seeds:
        """Draw `probes` random vectors for each token, to estimate the norms."""
        generator = torch.Generator().manual_seed(seed)
        noise = torch.randn(tokens, probes, width, generator=generator, dtype=torch.float64)
        return cls(tokens, width, noise.to(like), like)

    @property
    def per_token(self) -> int:
        """Return the number of vectors per token."""
        return self.width if self.noise is None else int(self.noise.shape[1])

    def chunks(self, size: int, length: int) -> Iterator[tuple[Int[Tensor, " tangent"], Tangents]]:
        """Yield batches of token indices and vectors [tangent, length, width].

        Each vector is zero everywhere except at its token.
        """
        for index in split_chunks(
            torch.arange(self.tokens * self.per_token, device=self.like.device), size
        ):
            token, number = index // self.per_token, index % self.per_token
            vectors = self.like.new_zeros(len(index), length, self.width)
            tangent = torch.arange(len(index), device=index.device)
            if self.noise is None:
                vectors[tangent, token, number] = 1
            else:
                vectors[tangent, token] = self.noise[token, number]
            yield token, vectors


class Sums:
    """Accumulates the squared norms of pushed vectors in float64, for each token at which vectors
    start.
    """

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
        """Add the squared norms of `vectors`, the output of a layer for vectors that started at the
        given tokens.
        """
        lengths = (
            torch.linalg.vector_norm(vectors[:, : self.total.shape[-1]], dim=-1).double().square()
        )
        lengths = lengths.to(self.total.device)
        self.total[step].index_add_(0, token, lengths)
        if self.seeds.noise is not None:
            self.squares[step].index_add_(0, token, lengths.square())

    def result(self) -> SquaredNorms:
        """Return the squared norms: sums over one-hot vectors, or means over Gaussian probes."""
        if self.seeds.noise is None:
            return SquaredNorms(self._orient(self.total), None)
        count = self.seeds.per_token
        mean = self.total / count
        variance = (self.squares / count - mean.square()).clamp_min(0) / max(count - 1, 1)
        return SquaredNorms(self._orient(mean), self._orient(variance))

    def _orient(self, tensor: Tensor) -> Tensor:
        return tensor.transpose(1, 2) if self.along == "source" else tensor


def squared_norms(
    steps: Sequence[Step],
    seeds: Callable[[int, int, Tensor], Seeds],
    tokens: tuple[int, int],
    *,
    size: int,
    memory: int = 0,
) -> SquaredNorms:
    """Return the squared norms after each layer in `steps`.

    `tokens` contains the number of targets and the number of sources without padding, and `size` is
    the number of tangents to push at once. `memory` is the number of bytes available for folded
    matrices and for tangents that wait for the next layer. If `memory` is zero, no layer is folded.
    """
    pushes = [forward_derivative(step) for step in steps]
    if any(push is None for push in pushes):
        return _reverse(steps, seeds, tokens, size)
    return _forward(
        steps, [push for push in pushes if push is not None], seeds, tokens, size, memory
    )


def _forward(
    steps: Sequence[Step],
    pushes: Sequence[Push],
    seeds: Callable[[int, int, Tensor], Seeds],
    tokens: tuple[int, int],
    size: int,
    memory: int,
) -> SquaredNorms:
    point, states = steps[0].point, steps[0].states
    source = point if states is None else states
    layer_seeds = seeds(tokens[1], int(source.shape[-1]), source)
    sums = Sums(len(steps), tokens, layer_seeds, along="source")
    schedule = _Schedule(steps, pushes, layer_seeds.tokens * layer_seeds.per_token, size, memory)
    chunks = layer_seeds.chunks(size, len(source))
    while band := list(itertools.islice(chunks, schedule.chunks)):
        tangents_by_place = [
            vectors if states is None else point.new_zeros(len(vectors), *point.shape)
            for _, vectors in band
        ]
        for number, step in enumerate(steps):
            push = schedule.push(number)
            for place, (token, vectors) in enumerate(band):
                tangents = tangents_by_place[place].to(
                    step.point.device
                )  # layers may be on several devices
                if step.states is None:
                    tangents_by_place[place] = push((step.point,), (tangents,))
                else:
                    seeded = vectors.to(step.states.device)
                    tangents_by_place[place] = push((step.point, step.states), (tangents, seeded))
                sums.add(number, token, tangents_by_place[place])
    return sums.result()


class _Schedule:
    """Decides which layers are folded and how many chunks of tangents form a band."""

    def __init__(
        self, steps: Sequence[Step], pushes: Sequence[Push], tangents: int, size: int, memory: int
    ) -> None:
        self.steps, self.pushes, self.size = steps, pushes, size
        self.cache: dict[int, Push] = {}
        sizes = [folded_bytes(step) for step in steps]
        largest = max(
            step.point.numel() + (0 if step.states is None else step.states.numel())
            for step in steps
        )
        chunk = 2 * size * largest * steps[0].point.element_size()
        self.keep = sum(sizes) <= memory
        self.chunks = 1 if self.keep else max(1, (memory - max(sizes)) // chunk)
        at_once = tangents if self.keep else min(tangents, self.chunks * size)
        self.folds = [max(sizes) <= memory and is_worth_folding(step, at_once) for step in steps]
        if not any(self.folds):
            self.chunks = 1

    def push(self, number: int) -> Push:
        if number in self.cache:
            return self.cache[number]
        if not self.keep:
            self.cache.clear()
        plain = self.pushes[number]
        folded = fold(self.steps[number], plain, size=self.size) if self.folds[number] else None
        self.cache[number] = plain if folded is None else folded
        return self.cache[number]


def _reverse(
    steps: Sequence[Step],
    seeds: Callable[[int, int, Tensor], Seeds],
    tokens: tuple[int, int],
    size: int,
) -> SquaredNorms:
    """Compute the norms in reverse mode, by pulling cotangents back from the output of every layer
    to the sources.
    """
    norms = [
        _reverse_from(steps[: number + 1], seeds, tokens, size) for number in range(len(steps))
    ]
    variances = [one.variance for one in norms if one.variance is not None]
    return SquaredNorms(
        torch.cat([one.mean for one in norms]), torch.cat(variances) if variances else None
    )


def _reverse_from(
    steps: Sequence[Step],
    seeds: Callable[[int, int, Tensor], Seeds],
    tokens: tuple[int, int],
    size: int,
) -> SquaredNorms:
    last = steps[-1].point
    layer_seeds = seeds(tokens[0], int(last.shape[-1]), last)
    sums = Sums(1, tokens, layer_seeds, along="target")
    for token, vectors in layer_seeds.chunks(size, len(last)):
        to_states: Tensor | None = None
        for step in reversed(steps):
            primals = (step.point,) if step.states is None else (step.point, step.states)
            with torch.enable_grad():
                leaves = tuple(
                    p.detach().expand(len(vectors), *p.shape).clone().requires_grad_()
                    for p in primals
                )
                vectors = vectors.to(step.point.device)
                pulled = torch.autograd.grad(step(*leaves), leaves, vectors)
            vectors = pulled[0]
            if len(pulled) > 1:
                sofar = 0 if to_states is None else to_states.to(pulled[1].device)
                to_states = pulled[1] + sofar
        sums.add(0, token, vectors if to_states is None else to_states)
    return sums.result()
