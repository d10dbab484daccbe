"""Push tangents through one layer, and check that the result agrees with reverse-mode
differentiation.

By default, tangents are pushed with `torch.func.jvp` under `vmap`, so that the layer itself runs
once for all tangents. If this fails, dual numbers on copies of the input are used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
import torch.autograd.forward_ad as forward_ad
from torch import Tensor

from mixlens.model.session import matmul_precision
from mixlens.replay.fallbacks import note_fallback
from mixlens.replay.intervention import LayerFunction

Push = Callable[[tuple[Tensor, ...], tuple[Tensor, ...]], Tensor]
"""Takes the arguments of a step and their tangents [tangent, token, d], and returns the tangents of
the output.
"""

# Some models compute a softmax in float32, whatever their dtype.
_AGREES = {torch.float64: 1e-5, torch.float32: 1e-3}


@runtime_checkable
class Step(Protocol):
    """Protocol for one recorded layer as a function of its input. The input is a batch of copies of
    the layer's hidden states and, for cross-attention, of the encoder's states.
    """

    @property
    def point(self) -> Tensor:
        """Return the hidden states at which the layer is linearised."""

    @property
    def states(self) -> Tensor | None:
        """Return the encoder's states that the layer attends to, or None without
        cross-attention.
        """

    def __call__(self, hidden: Tensor, states: Tensor | None = None, /) -> Tensor:
        """Run the step."""


def forward_derivative(step: Step) -> Push | None:
    """Return a function that pushes tangents through a layer, or None.

    The result is None if no forward derivative agrees with the reverse-mode derivative.
    """
    with matmul_precision("float32"):
        push = _agreeing(step)
    if push is None and isinstance(step, LayerFunction):
        note_fallback(
            step.layer,
            "hidden token attribution runs in reverse mode, because the layer has no forward "
            "derivative that agrees with the reverse one",
        )
    return push


def _agreeing(step: Step) -> Push | None:
    primals = (step.point,) if step.states is None else (step.point, step.states)
    generator = torch.Generator().manual_seed(0)
    noise = [
        torch.randn(primal.shape, generator=generator, dtype=torch.float64).to(primal)
        for primal in primals
    ]
    try:
        value, pulled = _pull_back(step, primals, generator)
    except Exception:  # without a reverse derivative to compare with, none is used
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
        except Exception:  # each operation without a forward derivative raises its own error
            continue
        if abs(float((tangent.double() * value.double()).sum()) - expected) <= _AGREES[
            tangent.dtype
        ] * max(scale, 1e-30):
            return push
    return None


def _pull_back(
    step: Step, primals: tuple[Tensor, ...], generator: torch.Generator
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return a random cotangent, and the corresponding vector-Jacobian product of the layer."""
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
