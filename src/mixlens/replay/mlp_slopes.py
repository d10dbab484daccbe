"""The derivative of everything after an attention block that ends in an MLP, as one matrix per
target.

With u = beta x + alpha o, z = N(u) and mlp(z) = act(z W_1 + b_1) W_2 + b_2, the matrix consists of
W_1 diag(act'_i) W_2 (for gated MLPs (W_g diag(act'_i * up_i) + W_u diag(act_i)) W_2) and of the
derivatives of the norms, which are a diagonal plus a part of rank one and therefore need no
products. Row vectors are multiplied from the left: de_i = du_i E_i.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mixlens.kernels.chunks import product_bytes, slices
from mixlens.recording.layer import Layer
from mixlens.replay.mlp import Mlp
from mixlens.structure.norms import LinearisedNorm, norm_of


class MlpSlopes:
    """E_i for tokens of the stream and of the attention output, for a layer with one attention."""

    def __init__(
        self,
        layer: Layer,
        stream: Float[Tensor, "row d"],
        projected: Float[Tensor, "row d"],
        mlp: Mlp,
    ) -> None:
        structure, feed_forward = layer.structure.sites[0], layer.structure.feed_forward
        assert feed_forward is not None
        self.mlp = mlp
        self.after_block: bool = structure.output_norm is not None
        self.feed_forward = feed_forward

        path = feed_forward.output_norm
        self.output_norm: LinearisedNorm | None = (
            None if path is None else norm_of(layer.module.get_submodule(path), stream)
        )
        self.sums = structure.total(stream, projected)  # u
        normed = mlp.norm(self.sums)
        products = [normed @ matrix + bias for matrix, bias in mlp.first]
        value, slope = _value_and_slope(mlp.activation, products[0])
        self.slopes = [slope] if len(products) == 1 else [slope * products[1], value]
        hidden = value if len(products) == 1 else value * products[1]
        branch = hidden @ mlp.second[0] + mlp.second[1]
        self.total = feed_forward.total(normed if self.after_block else self.sums, branch)

    def matrices(self, rows: Int[Tensor, " row"] | None = None) -> Float[Tensor, "row d d"]:
        """Return the matrices for all tokens, or for a few of them."""
        if rows is None:
            rows = torch.arange(len(self.sums), device=self.sums.device)
        width, inner = self.mlp.first[0][0].shape
        made = self.sums.new_empty(len(rows), width, width)
        bytes_each = width * inner * made.element_size()
        for part in slices(len(rows), bytes_each, product_bytes(made.device)):
            made[part] = self._block(rows[part])
        return made

    def _block(self, rows: Int[Tensor, " row"]) -> Float[Tensor, "row d d"]:
        width = int(self.sums.shape[-1])
        inner = self.mlp.first[0][0] * self.slopes[0][rows, None]
        for (matrix, _), slope in zip(self.mlp.first[1:], self.slopes[1:], strict=True):
            inner = inner.addcmul_(matrix.expand_as(inner), slope[rows, None])
        block = (inner.flatten(0, 1) @ self.mlp.second[0]).view(len(rows), width, width)
        block = self.feed_forward.scaled(block)
        if self.after_block:
            block.diagonal(dim1=1, dim2=2).add_(self.feed_forward.residual_scale)
        block = _norm_then(self.mlp.norm, self.sums[rows], block)
        if not self.after_block:
            block.diagonal(dim1=1, dim2=2).add_(self.feed_forward.residual_scale)
        return (
            block
            if self.output_norm is None
            else _then_norm(block, self.output_norm, self.total[rows])
        )


def _value_and_slope(function: Callable[[Tensor], Tensor], point: Tensor) -> tuple[Tensor, Tensor]:
    """Return value and derivative of an elementwise function."""
    pushed = torch.func.jvp(function, (point,), (torch.ones_like(point),))
    return pushed[0], pushed[1]


def _direction(norm: LinearisedNorm, point: Tensor) -> tuple[Tensor, Tensor]:
    """Return h = centred(u) / sigma and 1 / sigma: dN = (du - mean(du) - h mean(h du)) / sigma *
    gain.
    """
    centred = point - point.mean(-1, keepdim=True) if norm.centred else point
    inverse = norm.inverse_sigma(point)[:, None]
    return centred * inverse, inverse


def _norm_then(
    norm: LinearisedNorm, point: Float[Tensor, "row d"], block: Float[Tensor, "row d d"]
) -> Tensor:
    """Return J_N times a matrix."""
    block = block * norm.gain[:, None]
    direction, inverse = _direction(norm, point)
    along = torch.bmm(direction[:, None], block) / -block.shape[-1]
    mean = block.mean(1, keepdim=True) if norm.centred else None
    block = block.baddbmm_(direction[..., None], along)
    if mean is not None:
        block = block.sub_(mean)
    return block.mul_(inverse[..., None])


def _then_norm(
    block: Float[Tensor, "row d d"], norm: LinearisedNorm, point: Float[Tensor, "row d"]
) -> Tensor:
    """Return a matrix times J_N."""
    direction, inverse = _direction(norm, point)
    along = torch.bmm(block, direction[..., None]) / -block.shape[-1]
    if norm.centred:
        block = block - block.mean(-1, keepdim=True)
    return torch.baddbmm(block, along, direction[:, None]).mul_(inverse[..., None] * norm.gain)
