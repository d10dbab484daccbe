"""The derivative of plain softmax attention in closed form: o = W_O [sum_j A_ij v_j], A = softmax(c
q k^T + bias).

    dS = c (dq k^T + q dk^T),    dA = A * (dS - sum_j A dS),    dz = (A * dS) v - (sum_j A dS) z + A
    dv

and dq, dk, dv are one product with the tangent of the stream (through the norm before the
attention, if there is one). A few large products replace the many small steps of automatic
differentiation. Queries, keys, weights and values are captured at the two products around the
softmax; the projections are found by differentiation, not by name. Rotary positions, caps, sinks
and other forms show in the numbers, and then `folding.py` differentiates the layer's own code.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mixlens.capture.layer_calls import hooks_removed
from mixlens.recording.attention import Attention
from mixlens.replay.intervention import LayerFunction
from mixlens.structure.norms import LinearisedNorm, norm_of

_SOFTMAX = {torch.softmax, torch.nn.functional.softmax, Tensor.softmax}
_PRODUCTS = {torch.matmul, torch.bmm, Tensor.matmul, Tensor.bmm, Tensor.__matmul__}


class AttentionSlopes:
    """Tangents of the attention output of one text, for a layer with one attention."""

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
                lambda rows: _overheard(step, path, rows), (stream,), (tangent,)
            )[1]
            return result

        query, key, weights, self.values = _overheard(step, path, stream)
        moved: tuple[Tensor, ...] = torch.func.vmap(one)(torch.cat([basis, noise[None]]))
        projected = (
            moved[0],
            moved[1],
            moved[3],
        )  # queries, keys, values: [tangent, head, token, d_head]
        maps = [
            part[:-1].permute(0, 2, 1, 3).reshape(-1, part.shape[1] * part.shape[3])[:width]
            for part in projected
        ]
        self.sizes = [matrix.shape[1] for matrix in maps]
        self.projection = torch.cat(maps, 1)
        self.weights = weights
        dq, dk, dw, _ = (part[-1] for part in moved)
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
        """Return the input of the output projection."""
        tangents = self._normed(tangents)
        (count, tokens, width), heads = tangents.shape, len(self.weights)
        rows = count * tokens
        moved = tangents.reshape(rows, width) @ self.projection
        query, key, value = (
            part.view(rows, heads, -1).transpose(0, 1) for part in torch.split(moved, self.sizes, 1)
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
        made = by_weights.new_empty(count, tokens, heads, by_weights.shape[-1])
        torch.add(by_weights.permute(1, 2, 0, 3), by_values.permute(2, 1, 0, 3), out=made)
        made.addcmul_(lost.permute(1, 2, 0)[..., None], self.mixed, value=-1)
        return made.view(rows, -1)

    def _normed(self, tangents: Tensor) -> Tensor:
        if self.norm is None:
            return tangents
        norm, point = self.norm, self.point
        centred = point - point.mean(-1, keepdim=True) if norm.centred else point
        inverse = norm.inverse_sigma(point)[:, None]
        moved = tangents - tangents.mean(-1, keepdim=True) if norm.centred else tangents
        direction = centred * inverse
        along = (tangents * direction).mean(-1, keepdim=True)
        return torch.addcmul(moved, along, direction, value=-1) * (inverse * norm.gain)


class _Overheard(Exception):
    """Stops the run of a layer after its attention was captured."""


class _Around(TorchFunctionMode):
    """Keeps the arguments of the products before and after a softmax."""

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
                raise _Overheard
            self.last = (args[0], args[1])
        result = func(*args, **(kwargs or {}))
        if func in _SOFTMAX:
            self.scores, self.shape = self.last, result.shape
        return result


def _overheard(step: LayerFunction, norm: str | None, rows: Tensor) -> tuple[Tensor, ...]:
    """Return queries, keys, weights and values [head, token, ...] of the first attention, from the
    inputs of its projections.
    """
    captured = _Around()
    with _returning(step.module, norm, rows), contextlib.suppress(_Overheard), captured:
        step(step.point[None] if norm is not None else rows[None])
    if len(captured.parts) != 4:
        raise ValueError("no softmax between two products")
    return captured.parts


@contextlib.contextmanager
def _returning(module: nn.Module, path: str | None, rows: Tensor) -> Iterator[None]:
    handles: list[Any] = []
    with hooks_removed(handles):
        if path is not None:
            part = module.get_submodule(path)
            handles.append(
                part.register_forward_hook(
                    lambda submodule, inputs, output: rows.reshape(output.shape)
                )
            )
        yield
