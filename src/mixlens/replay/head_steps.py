"""The steps of a model's head, applied to the final state and to the parts of that state.

The sigma of each norm is fixed, each activation is replaced by its chord from zero, and biases are
divided among the parts by the rules of DecompX, or dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mixlens.kernels.chords import chord
from mixlens.kernels.shares import SHIFT
from mixlens.replay.vector_parts import PartRules
from mixlens.structure.norms import LinearisedNorm

Row = Float[Tensor, "*rows width"]
_WITHOUT_BIASES = PartRules(bias="none")


@dataclass(frozen=True)
class Product:
    """An affine map z W + b, as a step of the head."""

    matrix: Float[Tensor, "d_in d_out"]
    bias: Float[Tensor, " d_out"]

    def whole(self, state: Row) -> Row:
        """Apply this step to a state."""
        return state @ self.matrix + self.bias

    def parts(self, parts: Tensor, state: Row, rules: PartRules) -> Tensor:
        """Apply this step to the parts [source, width] of a state."""
        return rules.share(parts @ self.matrix, self.bias)


@dataclass(frozen=True)
class Norm:
    """A norm with fixed sigma, as a step of the head."""

    norm: LinearisedNorm

    def whole(self, state: Row) -> Row:
        """Apply this step to a state."""
        return self.norm(state)

    def parts(self, parts: Tensor, state: Row, rules: PartRules) -> Tensor:
        """Apply this step to the parts [source, width] of a state."""
        normed_parts = self.norm.linear(parts) * self.norm.inverse_sigma(state)[..., None]
        return rules.share(normed_parts, self.norm.shift)


@dataclass(frozen=True)
class Activation:
    """An elementwise function, replaced by its chord from zero when applied to parts."""

    function: Callable[[Tensor], Tensor]

    def whole(self, state: Row) -> Row:
        """Apply this step to a state."""
        return self.function(state)

    def parts(self, parts: Tensor, state: Row, rules: PartRules) -> Tensor:
        """Apply this step to the parts [source, width] of a state."""
        if rules.released:
            return parts * (self.function(state) / (state + SHIFT))
        return parts * chord(self.function, torch.zeros_like(state), state)


Step = Product | Norm | Activation


@dataclass(frozen=True)
class Head:
    """The steps of a model's head, the positions that the head reads in each text, and the hidden
    states at these positions.
    """

    steps: tuple[Step, ...]
    places: tuple[tuple[int, ...], ...]
    states: Float[Tensor, "batch place d_model"]

    def logits(self, state: Row) -> Row:
        """Return all logits for a final state."""
        for step in self.steps:
            state = step.whole(state)
        return state

    def logit_parts(
        self, parts: Float[Tensor, "source d_model"], state: Row, rules: PartRules
    ) -> Float[Tensor, "source output"]:
        """Return the contribution of each source to every logit."""
        for step in self.steps:
            parts, state = step.parts(parts, state, rules), step.whole(state)
        return parts

    def directions(
        self,
        states: Float[Tensor, "place d_model"],
        outputs: Int[Tensor, "place term"],
        weights: Float[Tensor, "place term"],
    ) -> Float[Tensor, "place d_model"]:
        """Return one direction g per state, such that a term v of the state contributes v . g to a
        weighted sum of logits.

        `outputs` and `weights` define the sum. Each g is the gradient of `project`, which is exact
        because `project` is linear.
        """
        few, columns = torch.unique(outputs.to(states.device), return_inverse=True)
        with torch.enable_grad():
            vectors = torch.zeros_like(states).requires_grad_()
            projected = self.project(vectors, states.detach(), few)
            total = (projected.gather(1, columns) * weights.to(projected)).sum()
            (slopes,) = torch.autograd.grad(total, vectors)
        return slopes

    def project(
        self,
        vectors: Float[Tensor, "vector d_model"],
        state: Row,
        outputs: Int[Tensor, " output"],
        rules: PartRules = _WITHOUT_BIASES,
    ) -> Float[Tensor, "vector output"]:
        """Return the contributions of `vectors`, which are terms of the final state, to the logits
        `outputs`.

        By default, biases are dropped. If you pass one state per vector, each vector is a term of
        its own state. `rules` must treat each logit independently, because only the logits in
        `outputs` are computed.
        """
        products = [i for i, step in enumerate(self.steps) if isinstance(step, Product)]
        for number, step in enumerate(self.steps):
            if isinstance(step, Product) and number == products[-1]:
                step = replace(step, matrix=step.matrix[:, outputs], bias=step.bias[outputs])
            vectors, state = step.parts(vectors, state, rules), step.whole(state)
        return vectors
