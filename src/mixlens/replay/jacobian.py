"""Squared Frobenius norms of the blocks of d e_i / d x_j, for every layer of a stack at once.

Forward mode: a tangent put in at one source token is carried from layer to layer and gives, on its
way, one column of the Jacobian of every layer's output. Source x d_model one-hot tangents give the
norms exactly; Gaussian ones estimate them, because E|Jv|^2 = |J|_F^2.

A layer is linearised by the first of these that agrees with its reverse derivative:
`torch.func.jvp` under `vmap` (the layer itself runs once for all tangents), or dual numbers on
copies. Where neither works (an autograd function without a forward derivative), reverse mode gives
the same numbers from the other side, one pass down from every layer's every output.

With many tangents it pays to fold what follows a layer's attention into one matrix per target
(`folding.py`). The matrices of all layers are kept where they fit in memory; else tangents are
carried in bands, as many at once as fit, and a layer's matrices live while a band passes through
it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
import torch.autograd.forward_ad as forward_ad
from jaxtyping import Float, Int
from torch import Tensor

from mixlens.kernels.chunks import pieces
from mixlens.precision import matmul_precision
from mixlens.replay.folding import Push, fold, folded_bytes, is_worth_folding

Tangents = Float[Tensor, "tangent token d"]
_AGREES = {
    torch.float64: 1e-5,
    torch.float32: 1e-3,
}  # some models take a softmax in float32 whatever their dtype


@runtime_checkable
class Step(Protocol):
    """One layer at the point where it was recorded: a function of copies of its hidden states, and
    of the states it attends to.
    """

    @property
    def point(self) -> Tensor:
        """The hidden states at which the step is linearised."""

    @property
    def states(self) -> Tensor | None:
        """The states of the stack that is read, if the step reads one."""

    def __call__(self, hidden: Tensor, states: Tensor | None = None, /) -> Tensor:
        """The step itself."""


@dataclass(frozen=True)
class SquaredNorms:
    """|J_ij|_F^2 for every step, and its variance where it is an estimate."""

    mean: Float[Tensor, "step target source"]
    variance: Float[Tensor, "step target source"] | None


@dataclass(frozen=True)
class Seeds:
    """Vectors put in one at a time: one-hot for all channels of every token, or `probes` Gaussian
    ones for each.
    """

    tokens: int
    width: int
    noise: Float[Tensor, "token probe width"] | None
    like: Tensor

    @classmethod
    def exact(cls, tokens: int, width: int, like: Tensor) -> Seeds:
        """Every unit vector of every token: nothing is estimated."""
        return cls(tokens, width, None, like)

    @classmethod
    def gaussian(cls, tokens: int, width: int, probes: int, seed: int, like: Tensor) -> Seeds:
        """Random vectors, `probes` for each token."""
        generator = torch.Generator().manual_seed(seed)
        noise = torch.randn(tokens, probes, width, generator=generator, dtype=torch.float64)
        return cls(tokens, width, noise.to(like), like)

    @property
    def per_token(self) -> int:
        """How many vectors each token has."""
        return self.width if self.noise is None else int(self.noise.shape[1])

    def chunks(self, size: int, length: int) -> Iterator[tuple[Int[Tensor, " tangent"], Tangents]]:
        """Tokens, and vectors [tangent, length, width] that are zero outside them."""
        for index in pieces(
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


def squared_norms(
    steps: Sequence[Step],
    seeds: Callable[[int, int, Tensor], Seeds],
    tokens: tuple[int, int],
    *,
    size: int,
    memory: int = 0,
) -> SquaredNorms:
    """For `steps` in their order; `tokens` are the real targets and sources, `size` the tangents
    pushed at once.

    `memory`: bytes for matrices and for tangents that wait; with none of it nothing is folded.
    """
    pushes = [forward_derivative(step) for step in steps]
    if any(push is None for push in pushes):
        return _reverse(steps, seeds, tokens, size)
    return _forward(
        steps, [push for push in pushes if push is not None], seeds, tokens, size, memory
    )


# ------------------------------------------------------------------------------------------ forward


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
    chosen = seeds(tokens[1], int(source.shape[-1]), source)
    sums = _Sums(len(steps), tokens, chosen, along="source")
    plan = _Plan(steps, pushes, chosen.tokens * chosen.per_token, size, memory)
    chunks = chosen.chunks(size, len(source))
    while band := list(itertools.islice(chunks, plan.chunks)):
        carried = [
            vectors if states is None else point.new_zeros(len(vectors), *point.shape)
            for _, vectors in band
        ]
        for number, step in enumerate(steps):
            push = plan.push(number)
            for place, (token, vectors) in enumerate(band):
                if step.states is None:
                    carried[place] = push((step.point,), (carried[place],))
                else:
                    carried[place] = push((step.point, step.states), (carried[place], vectors))
                sums.add(number, token, carried[place])
    return sums.result()


class _Plan:
    """How each step is pushed through, and how many chunks of tangents go through a step before the
    next one is taken.
    """

    def __init__(
        self, steps: Sequence[Step], pushes: Sequence[Push], tangents: int, size: int, memory: int
    ) -> None:
        self.steps, self.pushes, self.size = steps, pushes, size
        self.known: dict[int, Push] = {}
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
        if number in self.known:
            return self.known[number]
        if not self.keep:
            self.known.clear()
        plain = self.pushes[number]
        found = fold(self.steps[number], plain, size=self.size) if self.folds[number] else None
        self.known[number] = plain if found is None else found
        return self.known[number]


def forward_derivative(step: Step) -> Push | None:
    """A way to push tangents through a step that agrees with its reverse derivative, or None."""
    with matmul_precision("float32"):
        return _agreeing(step)


def _agreeing(step: Step) -> Push | None:
    primals = (step.point,) if step.states is None else (step.point, step.states)
    generator = torch.Generator().manual_seed(0)
    noise = [
        torch.randn(primal.shape, generator=generator, dtype=torch.float64).to(primal)
        for primal in primals
    ]
    try:
        value, pulled = _pulled(step, primals, generator)
    except Exception:  # no reverse derivative to check against: then none is trusted
        return None
    expected = sum(
        float((a.double() * b.double()).sum()) for a, b in zip(pulled, noise, strict=True)
    )
    scale = sum(
        float(a.double().norm() * b.double().norm()) for a, b in zip(pulled, noise, strict=True)
    )
    for push in (_by_vmap(step), _by_duals(step)):
        try:
            tangent = push(primals, tuple(vector[None] for vector in noise))[0]
        except (
            Exception
        ):  # what an operation without forward derivative raises differs from one to the next
            continue
        if abs(float((tangent.double() * value.double()).sum()) - expected) <= _AGREES[
            tangent.dtype
        ] * max(scale, 1e-30):
            return push
    return None


def _pulled(
    step: Step, primals: tuple[Tensor, ...], generator: torch.Generator
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """A random cotangent, and what it is after going back through the step."""
    with torch.enable_grad():
        leaves = tuple(primal.detach().clone().requires_grad_() for primal in primals)
        output = step(*(leaf[None] for leaf in leaves))[0]
        cotangent = torch.randn(output.shape, generator=generator, dtype=torch.float64).to(output)
        pulled = torch.autograd.grad(output, leaves, cotangent)
    return cotangent, pulled


def _by_vmap(step: Step) -> Push:
    def single(*primals: Tensor) -> Tensor:
        return step(*(primal[None] for primal in primals))[0]

    def push(primals: tuple[Tensor, ...], tangents: tuple[Tensor, ...]) -> Tensor:
        def one(*tangent: Tensor) -> Tensor:
            result: Tensor = torch.func.jvp(single, primals, tangent)[1]
            return result

        with torch.no_grad():
            pushed: Tensor = torch.func.vmap(one)(*tangents)
        return pushed

    return push


def _by_duals(step: Step) -> Push:
    def push(primals: tuple[Tensor, ...], tangents: tuple[Tensor, ...]) -> Tensor:
        with torch.no_grad(), forward_ad.dual_level():
            copies = [
                primal.expand(tangent.shape).clone()
                for primal, tangent in zip(primals, tangents, strict=True)
            ]
            duals = [
                forward_ad.make_dual(copy, tangent)  # type: ignore[no-untyped-call]
                for copy, tangent in zip(copies, tangents, strict=True)
            ]
            primal, tangent = forward_ad.unpack_dual(step(*duals))  # type: ignore[no-untyped-call]
            return torch.zeros_like(primal) if tangent is None else tangent

    return push


# ------------------------------------------------------------------------------------------ reverse


def _reverse(
    steps: Sequence[Step],
    seeds: Callable[[int, int, Tensor], Seeds],
    tokens: tuple[int, int],
    size: int,
) -> SquaredNorms:
    """The transposed blocks: cotangents go in at every output and come out at the sources."""
    found = [
        _reverse_from(steps[: number + 1], seeds, tokens, size) for number in range(len(steps))
    ]
    variances = [one.variance for one in found if one.variance is not None]
    return SquaredNorms(
        torch.cat([one.mean for one in found]), torch.cat(variances) if variances else None
    )


def _reverse_from(
    steps: Sequence[Step],
    seeds: Callable[[int, int, Tensor], Seeds],
    tokens: tuple[int, int],
    size: int,
) -> SquaredNorms:
    last = steps[-1].point
    chosen = seeds(tokens[0], int(last.shape[-1]), last)
    sums = _Sums(1, tokens, chosen, along="target")
    for token, vectors in chosen.chunks(size, len(last)):
        to_states: Tensor | None = None
        for step in reversed(steps):
            primals = (step.point,) if step.states is None else (step.point, step.states)
            with torch.enable_grad():
                leaves = tuple(
                    p.detach().expand(len(vectors), *p.shape).clone().requires_grad_()
                    for p in primals
                )
                pulled = torch.autograd.grad(step(*leaves), leaves, vectors)
            vectors = pulled[0]
            if len(pulled) > 1:
                to_states = pulled[1] if to_states is None else to_states + pulled[1]
        sums.add(0, token, vectors if to_states is None else to_states)
    return sums.result()


# --------------------------------------------------------------------------------------------- sums


class _Sums:
    """Adds up squared lengths, in float64, for each seeded token."""

    def __init__(self, steps: int, tokens: tuple[int, int], seeds: Seeds, *, along: str) -> None:
        self.targets, self.sources = tokens
        self.seeds, self.along = seeds, along
        other = self.targets if along == "source" else self.sources
        self.total = torch.zeros(
            steps, seeds.tokens, other, dtype=torch.float64, device=seeds.like.device
        )
        self.squares = torch.zeros_like(self.total)

    def add(self, step: int, token: Int[Tensor, " tangent"], vectors: Tangents) -> None:
        lengths = (
            torch.linalg.vector_norm(vectors[:, : self.total.shape[-1]], dim=-1).double().square()
        )
        self.total[step].index_add_(0, token, lengths)
        if self.seeds.noise is not None:
            self.squares[step].index_add_(0, token, lengths.square())

    def result(self) -> SquaredNorms:
        if self.seeds.noise is None:
            return SquaredNorms(self._oriented(self.total), None)
        count = self.seeds.per_token
        mean = self.total / count
        variance = (self.squares / count - mean.square()).clamp_min(0) / max(count - 1, 1)
        return SquaredNorms(self._oriented(mean), self._oriented(variance))

    def _oriented(self, tensor: Tensor) -> Tensor:
        return tensor.transpose(1, 2) if self.along == "source" else tensor
