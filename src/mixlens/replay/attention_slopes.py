"""Closed-form derivatives of plain softmax attention, and of the rest of a layer with an MLP.

Attention computes o = W_O z with z_i = sum_j A_ij v_j and A = softmax(c q k^T + bias). With S = c q
k^T, automatic differentiation is replaced by these formulas:

    dS = c (dq k^T + q dk^T),    dA = A * (dS - sum_j A dS),    dz = (A * dS) v - (sum_j A dS) z + A
    dv

The tangents dq, dk and dv are computed with a single product from the tangent of the residual
stream (after the norm before the attention, if there is one). A few large products thus replace
many small steps. Queries, keys, weights and values are captured at the two products around the
softmax; the projection matrices are found by differentiation, not by module name. The closed form
is compared with the derivative of the layer's own code. If the two differ, for example because of
rotary positions, soft-caps or sinks, `folding.py` uses the derivative of the layer's own code
instead.

The rest of the layer, from the attention output to the end of the MLP, has one matrix per target.
With u = beta x + alpha o, z = N(u) and mlp(z) = act(z W_1 + b_1) W_2 + b_2, this matrix combines
W_1 diag(act'_i) W_2 (for gated MLPs (W_g diag(act'_i * up_i) + W_u diag(act_i)) W_2) with the
derivatives of the norms. The derivative of a norm is a diagonal plus a rank-one matrix, so no
matrix product is needed to apply it. Tangents are row vectors, multiplied from the left: de_i =
du_i E_i.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mixlens.capture.layer_calls import hooks_removed
from mixlens.kernels.chunks import product_bytes, slices
from mixlens.recording.attention import Attention
from mixlens.recording.layer import Layer
from mixlens.replay.intervention import LayerFunction
from mixlens.replay.mlp import Mlp
from mixlens.structure.norms import LinearisedNorm, norm_of

_SOFTMAX = {torch.softmax, torch.nn.functional.softmax, Tensor.softmax}
_PRODUCTS = {torch.matmul, torch.bmm, Tensor.matmul, Tensor.bmm, Tensor.__matmul__}


class AttentionSlopes:
    """Computes tangents of the attention output for one text, in a layer with one attention
    module.
    """

    def __init__(self, step: LayerFunction, site: Attention) -> None:
        path = site.structure.input_norm
        self.norm: LinearisedNorm | None = (
            None if path is None else norm_of(step.module.get_submodule(path), step.point)
        )
        self.point: Tensor = step.point
        stream = step.point if self.norm is None else self.norm(step.point)
        generator = torch.Generator().manual_seed(3)
        noise = torch.randn(stream.shape, generator=generator, dtype=torch.float64).to(stream)
        tokens, width = stream.shape
        unit = torch.eye(width, dtype=stream.dtype, device=stream.device)
        padding = (-width) % tokens
        basis = torch.cat([unit, unit.new_zeros(padding, width)]).view(
            -1, tokens, width
        )  # a different channel in each row

        def one(tangent: Tensor) -> tuple[Tensor, ...]:
            result: tuple[Tensor, ...] = torch.func.jvp(
                lambda states: _attention_factors(step, path, states), (stream,), (tangent,)
            )[1]
            return result

        query, key, weights, self.values = _attention_factors(step, path, stream)
        tangents: tuple[Tensor, ...] = torch.func.vmap(one)(torch.cat([basis, noise[None]]))
        projected = (
            tangents[0],
            tangents[1],
            tangents[3],
        )  # queries, keys, values: [tangent, head, token, d_head]
        maps = [
            part[:-1].permute(0, 2, 1, 3).reshape(-1, part.shape[1] * part.shape[3])[:width]
            for part in projected
        ]
        self.sizes = [matrix.shape[1] for matrix in maps]
        self.projection = torch.cat(maps, 1)
        self.weights = weights
        dq, dk, dw, _ = (part[-1] for part in tangents)
        scores = dq @ key.mT + query @ dk.mT
        expected = weights * (scores - (weights * scores).sum(-1, keepdim=True))
        scale = (dw * expected).sum() / expected.square().sum().clamp_min(1e-30)
        self.keys = (key * scale).mT.contiguous()
        self.queries = query * scale
        # z: [target, head, d_head]
        self.mixed = (weights @ self.values).transpose(0, 1).contiguous()
        self.output = site.output_weight.flatten(0, 1)

    def __call__(
        self, tangents: Float[Tensor, "tangent token d"]
    ) -> Float[Tensor, "tangents_of_tokens d_mixed"]:
        """Return the tangents of the output projection's input."""
        tangents = self._normalise(tangents)
        (count, tokens, width), heads = tangents.shape, len(self.weights)
        rows = count * tokens
        projected_tangents = tangents.reshape(rows, width) @ self.projection
        query, key, value = (
            part.view(rows, heads, -1).transpose(0, 1)
            for part in torch.split(projected_tangents, self.sizes, 1)
        )
        scores = torch.bmm(query, self.keys).view(heads, count, tokens, tokens)
        scores += (
            torch.bmm(self.queries, key.transpose(1, 2))
            .view(heads, tokens, count, tokens)
            .transpose(1, 2)
        )
        scores *= self.weights[:, None]
        lost = scores.sum(-1)
        by_weights = torch.bmm(scores.view(heads, rows, tokens), self.values).view(
            heads, count, tokens, -1
        )
        value = value.reshape(heads, count, tokens, -1).transpose(1, 2).flatten(2)
        by_values = torch.bmm(self.weights, value).view(heads, tokens, count, -1)
        tangents_out = by_weights.new_empty(count, tokens, heads, by_weights.shape[-1])
        torch.add(by_weights.permute(1, 2, 0, 3), by_values.permute(2, 1, 0, 3), out=tangents_out)
        tangents_out.addcmul_(lost.permute(1, 2, 0)[..., None], self.mixed, value=-1)
        return tangents_out.view(rows, -1)

    def _normalise(self, tangents: Tensor) -> Tensor:
        if self.norm is None:
            return tangents
        norm, point = self.norm, self.point
        centred = point - point.mean(-1, keepdim=True) if norm.centred else point
        inverse = norm.inverse_sigma(point)[:, None]
        centred_tangents = tangents - tangents.mean(-1, keepdim=True) if norm.centred else tangents
        direction = centred * inverse
        along = (tangents * direction).mean(-1, keepdim=True)
        return torch.addcmul(centred_tangents, along, direction, value=-1) * (inverse * norm.gain)


class _Captured(Exception):
    """Raised to stop the forward pass of a layer once its attention has been captured."""


class _Around(TorchFunctionMode):
    """Captures the arguments of the matrix products before and after the attention softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.last: tuple[Tensor, Tensor] | None = None
        self.scores: tuple[Tensor, Tensor] | None = None
        self.shape: torch.Size | None = None
        self.parts: tuple[Tensor, ...] = ()

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func in _PRODUCTS and len(args) == 2:
            if self.scores is not None and args[0].shape == self.shape:
                query, key = self.scores
                self.parts = tuple(
                    part.flatten(0, -3) for part in (query, key.mT, args[0], args[1])
                )
                raise _Captured
            self.last = (args[0], args[1])
        result = func(*args, **(kwargs or {}))
        if func in _SOFTMAX:
            self.scores, self.shape = self.last, result.shape
        return result


def _attention_factors(step: LayerFunction, norm: str | None, states: Tensor) -> tuple[Tensor, ...]:
    """Return queries, keys, weights and values [head, token, ...] of the first attention.

    `states` contains the inputs of the query, key and value projections.
    """
    captured = _Around()
    with _returning(step.module, norm, states), contextlib.suppress(_Captured), captured:
        step(step.point[None] if norm is not None else states[None])
    if len(captured.parts) != 4:
        raise ValueError("There is no softmax between two matrix products.")
    return captured.parts


@contextlib.contextmanager
def _returning(module: nn.Module, path: str | None, states: Tensor) -> Iterator[None]:
    handles: list[Any] = []
    with hooks_removed(handles):
        if path is not None:
            part = module.get_submodule(path)
            handles.append(
                part.register_forward_hook(
                    lambda submodule, inputs, output: states.reshape(output.shape)
                )
            )
        yield


class MlpSlopes:
    """Computes the matrix E_i of each token: the derivative of the layer's output with respect to
    the sum of the stream and the attention output.
    """

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

    def matrices(self, tokens: Int[Tensor, " row"] | None = None) -> Float[Tensor, "row d d"]:
        """Return the matrices for all tokens, or only for the tokens in `tokens`."""
        if tokens is None:
            tokens = torch.arange(len(self.sums), device=self.sums.device)
        width, inner = self.mlp.first[0][0].shape
        token_matrices = self.sums.new_empty(len(tokens), width, width)
        bytes_each = width * inner * token_matrices.element_size()
        for part in slices(len(tokens), bytes_each, product_bytes(token_matrices.device)):
            token_matrices[part] = self._block(tokens[part])
        return token_matrices

    def _block(self, tokens: Int[Tensor, " row"]) -> Float[Tensor, "row d d"]:
        width = int(self.sums.shape[-1])
        inner = self.mlp.first[0][0] * self.slopes[0][tokens, None]
        for (matrix, _), slope in zip(self.mlp.first[1:], self.slopes[1:], strict=True):
            inner = inner.addcmul_(matrix.expand_as(inner), slope[tokens, None])
        block = (inner.flatten(0, 1) @ self.mlp.second[0]).view(len(tokens), width, width)
        block = self.feed_forward.scale_branch(block)
        if self.after_block:
            block.diagonal(dim1=1, dim2=2).add_(self.feed_forward.residual_scale)
        block = _norm_then(self.mlp.norm, self.sums[tokens], block)
        if not self.after_block:
            block.diagonal(dim1=1, dim2=2).add_(self.feed_forward.residual_scale)
        return (
            block
            if self.output_norm is None
            else _then_norm(block, self.output_norm, self.total[tokens])
        )


def _value_and_slope(function: Callable[[Tensor], Tensor], point: Tensor) -> tuple[Tensor, Tensor]:
    """Return the value and the derivative of an elementwise function."""
    pushed = torch.func.jvp(function, (point,), (torch.ones_like(point),))
    return pushed[0], pushed[1]


def _direction(norm: LinearisedNorm, point: Tensor) -> tuple[Tensor, Tensor]:
    """Return h = centred(u) / sigma and 1 / sigma for the input u of a norm.

    With h and sigma, the derivative of the norm is dN = (du - mean(du) - h mean(h du)) / sigma *
    gain.
    """
    centred = point - point.mean(-1, keepdim=True) if norm.centred else point
    inverse = norm.inverse_sigma(point)[:, None]
    return centred * inverse, inverse


def _norm_then(
    norm: LinearisedNorm, point: Float[Tensor, "row d"], block: Float[Tensor, "row d d"]
) -> Tensor:
    """Return the product J_N B, where J_N is the derivative of a norm and B is `block`."""
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
    """Return the product B J_N, where J_N is the derivative of a norm and B is `block`."""
    direction, inverse = _direction(norm, point)
    along = torch.bmm(block, direction[..., None]) / -block.shape[-1]
    if norm.centred:
        block = block - block.mean(-1, keepdim=True)
    return torch.baddbmm(block, along, direction[:, None]).mul_(inverse[..., None] * norm.gain)
