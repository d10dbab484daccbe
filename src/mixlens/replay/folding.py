"""Compute the derivative of a layer faster: fold everything after its attention into one matrix per
target.

After its attention, a layer processes each token separately. With attention outputs o, the layer's
output e_i = R(x_i, o_i) therefore has the derivative de_i = dx_i R_x(i) + do_i R_o(i), with two d x
d matrices that are the same for all tangents. If x and o enter as one sum beta x + alpha o (no norm
on the branch, no parallel MLP), one matrix is enough. Pushing a tangent through the layer then
takes the attention and one product with a d x d matrix, instead of the attention and an MLP, which
is several times as large.

The matrices are computed with the layer's own code, by pushing each unit vector through all tokens
at once. If the rest of the layer is an MLP with norms, the closed form J W_1 diag(act') W_2 halves
the work, because the derivative of a norm is a diagonal plus a rank-one matrix. Before a folded
layer is used, it is compared with the derivative of the whole layer. This derivative is defined in
Brunner et al., "On Identifiability in Transformers", ICLR 2020, eq. 11.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mixlens.capture.layer_calls import first_tensor, hooks_removed
from mixlens.kernels.differences import difference
from mixlens.model.module_walk import part_at
from mixlens.model.session import matmul_precision
from mixlens.recording.attention import Attention
from mixlens.recording.layer import Layer
from mixlens.replay.attention_slopes import AttentionSlopes, MlpSlopes
from mixlens.replay.fallbacks import note_fallback
from mixlens.replay.forward_derivative import Push
from mixlens.replay.intervention import LayerFunction
from mixlens.replay.layer_rest import LayerRest
from mixlens.replay.mlp import find_mlp
from mixlens.replay.shortcuts import Shortcut, run_with_outputs
from mixlens.structure.layer_structure import AttentionStructure

# Some models compute norms and softmaxes in float32, whatever their dtype.
_AGREES = {torch.float64: 1e-6, torch.float32: 2e-5}
_OVERHEAD = 1.3  # forward mode under vmap, in plain products


Parts = Callable[[tuple[Tensor, ...], tuple[Tensor, ...]], list[Tensor]]


@dataclass(frozen=True)
class FoldedLayer:
    """Pushes tangents through a layer: first through its attention, then through the matrices that
    replace the rest of the layer.
    """

    parts: Parts  # the tangents that enter the rest: of x and every o, or of beta x + alpha o
    matrices: tuple[Float[Tensor, "token d d"], ...]

    def __call__(self, primals: tuple[Tensor, ...], tangents: tuple[Tensor, ...]) -> Tensor:
        """Return the tangents of the layer's output, computed with one product for each matrix."""
        parts = self.parts(primals, tangents)
        total = torch.bmm(parts[0].transpose(0, 1), self.matrices[0])
        for part, matrix in zip(parts[1:], self.matrices[1:], strict=True):
            total.baddbmm_(part.transpose(0, 1), matrix)
        return total.transpose(0, 1)


def folded_bytes(step: object) -> int:
    """Return the size in bytes of the matrices into which a layer would be folded. Return zero if
    `step` cannot be folded, because it is not a `LayerFunction`.
    """
    if not isinstance(step, LayerFunction):
        return 0
    tokens, width = step.point.shape
    return int(_matrices(step) * tokens * width * width * step.point.element_size())


def is_worth_folding(step: object, tangents: int) -> bool:
    """Return whether folding is faster for this number of tangents, including the time to compute
    the matrices.
    """
    if not isinstance(step, LayerFunction):
        return False
    width, count = int(step.point.shape[-1]), _matrices(step)
    total = sum(p.numel() for p in step.module.parameters() if p.dim() > 1)
    attention = sum(
        2 * width * site.d_head * (site.heads + site.kv_heads)
        for site in step.layer.structure.sites
    )
    remaining_cost = _OVERHEAD * (total - attention)
    mlp = find_mlp(step.layer) if _one_sum(step) else None
    setup = width * (mlp.second[0].numel() if mlp is not None else count * remaining_cost)
    return tangents * (remaining_cost - count * width * width) > setup


def fold(step: object, push: Push, *, size: int) -> Push | None:
    """Return a folded function that computes the same tangents as `push` in less time, or None if
    the layer cannot be folded.

    `size` is the number of tangents that fit in memory at once.
    """
    if not isinstance(step, LayerFunction):
        return None
    folded = _fold_layer(step, push, size)
    if folded is None:
        note_fallback(
            step.layer,
            "hidden token attribution runs the whole layer for each tangent, because the "
            "rest of the layer cannot be folded into matrices",
        )
    return folded


def _fold_layer(step: LayerFunction, push: Push, size: int) -> FoldedLayer | None:
    primals = (step.point,) if step.states is None else (step.point, step.states)
    generator = torch.Generator().manual_seed(1)
    noise = tuple(
        torch.randn(2, *p.shape, generator=generator, dtype=torch.float64).to(p) for p in primals
    )
    try:
        after_attention = AfterAttention(step)  # in the recorded precision of the layer
        # Computed once, in full precision, because comparisons need the digits.
        with torch.no_grad(), matmul_precision("float32"):
            matrices, expected = _matrices_of(step, after_attention, size), push(primals, noise)
            for parts in (_form_softmax_parts, _differentiate_parts):
                layer = _agreeing(parts, step, after_attention, matrices, primals, noise, expected)
                if layer is not None:
                    return layer
    except Exception:  # a layer that cannot run on single tokens may raise anything
        return None
    return None


def _agreeing(
    parts: Callable[[LayerFunction, AfterAttention], Parts],
    step: LayerFunction,
    after_attention: AfterAttention,
    matrices: tuple[Tensor, ...],
    primals: tuple[Tensor, ...],
    noise: tuple[Tensor, ...],
    expected: Tensor,
) -> FoldedLayer | None:
    try:
        layer = FoldedLayer(parts(step, after_attention), matrices)
        return (
            layer
            if difference(layer(primals, noise), expected) <= _AGREES[expected.dtype]
            else None
        )
    except Exception:  # attention of a different form
        return None


def _form_softmax_parts(step: LayerFunction, after_attention: AfterAttention) -> Parts:
    """Return a function that pushes tangents through plain softmax attention in closed form."""
    if len(after_attention.sites) > 1 or step.states is not None:
        raise ValueError("The closed form supports only one self-attention per layer.")
    site = after_attention.sites[0]
    slopes, structure, is_joined = (
        AttentionSlopes(step, site),
        site.structure,
        _is_joined_sum(site.structure),
    )
    output = structure.scale_branch(slopes.output) if is_joined else slopes.output

    def parts(primals: tuple[Tensor, ...], tangents: tuple[Tensor, ...]) -> list[Tensor]:
        tangent = tangents[0].contiguous()
        mixed = slopes(tangent)
        if not is_joined:
            return [tangent, (mixed @ output).view(tangent.shape)]
        return [
            torch.addmm(tangent.flatten(0, 1), mixed, output, beta=structure.residual_scale).view(
                tangent.shape
            )
        ]

    return parts


def _differentiate_parts(step: LayerFunction, after_attention: AfterAttention) -> Parts:
    """Return a function that pushes tangents through any attention, with the forward derivative of
    the layer's own code.
    """
    attention, site = attention_outputs(step), step.layer.structure.sites[0]
    is_joined = _is_joined_sum(site)

    def parts(primals: tuple[Tensor, ...], tangents: tuple[Tensor, ...]) -> list[Tensor]:
        first, *more_tangents = push_tangents(attention, primals, tangents)
        if not is_joined:
            return [tangents[0], first, *more_tangents]
        return [site.total(tangents[0], first), *more_tangents]

    return parts


def _matrices_of(
    step: LayerFunction, after_attention: AfterAttention, size: int
) -> tuple[Tensor, ...]:
    first = step.layer.structure.sites[0]
    primals = (step.point,) if step.states is None else (step.point, step.states)
    point = (step.point, *attention_outputs(step)(*primals))
    slopes = _slopes(step, after_attention, point) if _one_sum(step) else None
    if slopes is not None:
        return (slopes.matrices(),)
    is_joined = _is_joined_sum(first)
    matrices = [
        _by_basis(after_attention, point, number, size)
        for number in range(len(point))
        if not (is_joined and number == 1)
    ]
    if is_joined:
        matrices[0] /= first.residual_scale
    return tuple(matrices)


def _is_joined_sum(site: AttentionStructure) -> bool:
    return (
        not site.parallel
        and not site.branch
        and site.residual_from is None
        and site.residual_scale != 0
    )


def _one_sum(step: LayerFunction) -> bool:
    return len(step.layer.structure.sites) == 1 and _is_joined_sum(step.layer.structure.sites[0])


def _matrices(step: LayerFunction) -> int:
    sites = step.layer.structure.sites
    return 1 + len(sites) - _is_joined_sum(sites[0])


def _slopes(
    step: LayerFunction, after_attention: AfterAttention, point: Sequence[Tensor]
) -> MlpSlopes | None:
    """Return the closed form of the rest of the layer, if it agrees with the layer's own code on a
    few tokens.
    """
    mlp = find_mlp(step.layer)
    if mlp is None or mlp.after is not None:
        return None
    slopes = MlpSlopes(step.layer, point[0], point[1], mlp)
    generator = torch.Generator().manual_seed(2)
    noise = torch.randn(step.point.shape, generator=generator, dtype=torch.float64).to(step.point)
    expected = push_tangents(
        lambda x: (after_attention(x, *point[1:]),), (step.point,), (noise[None],)
    )[0][0]
    few = torch.linspace(0, len(noise) - 1, min(3, len(noise)), device=noise.device).long()
    computed = (
        torch.bmm(noise[few][:, None], slopes.matrices(few))[:, 0]
        * after_attention.sites[0].structure.residual_scale
    )
    return slopes if difference(computed, expected[few]) <= _AGREES[noise.dtype] else None


def _by_basis(
    after_attention: AfterAttention, point: Sequence[Tensor], number: int, size: int
) -> Float[Tensor, "token d d"]:
    """Return the derivative of `after_attention` with respect to its argument with index `number`,
    as one matrix per token.

    Unit vectors are pushed forward, each of them through all tokens at once.
    """
    tokens, width = point[number].shape

    def single(argument: Tensor) -> tuple[Tensor, ...]:
        return (after_attention(*point[:number], argument, *point[number + 1 :]),)

    unit = torch.eye(width, dtype=point[number].dtype, device=point[number].device)
    matrices = unit.new_empty(tokens, width, width)
    for start in range(0, width, size):
        basis = unit[start : start + size, None].expand(-1, tokens, -1)
        matrices[:, start : start + size] = push_tangents(single, (point[number],), (basis,))[
            0
        ].transpose(0, 1)
    return matrices


class _Enough(Exception):
    """Raised to stop the forward pass of a layer whose remaining output is not needed."""


def attention_outputs(step: LayerFunction) -> Callable[..., tuple[Tensor, ...]]:
    """Return a function that computes the outputs of the attention projections.

    The function runs the layer and stops it after the last of these projections.
    """
    paths = [site.output_projection for site in step.layer.structure.sites]

    def single(*primals: Tensor) -> tuple[Tensor, ...]:
        outputs: list[Tensor] = []

        def keep_output(submodule: nn.Module, inputs: Any, output: Any) -> None:
            outputs.append(first_tensor(output).reshape(primals[0].shape))
            if len(outputs) == len(paths):
                raise _Enough

        handles: list[Any] = []
        with hooks_removed(handles), contextlib.suppress(_Enough):
            handles += [
                part_at(step.module, path).register_forward_hook(keep_output) for path in paths
            ]
            step(*(primal[None] for primal in primals))
        return tuple(outputs)

    return single


class AfterAttention:
    """The output of a layer as a function of its input tokens and the outputs of all its attention
    modules.
    """

    def __init__(self, step: LayerFunction) -> None:
        self.step = step
        self.layer: Layer = step.layer
        layer_rest = LayerRest(step.layer, step.layer.structure.sites[-1].kind)
        self.sites: list[Attention] = layer_rest.sites
        self.shortcuts: tuple[Shortcut, ...] = (
            layer_rest.shortcuts if layer_rest.mode == "shortcut" else ()
        )

    def __call__(self, hidden: Tensor, *outputs: Tensor) -> Tensor:
        """Return the layer's output, given its input tokens and the output of each attention's
        projection.
        """
        layer, module, structures = self.layer, self.step.module, self.layer.structure.sites
        if not self.shortcuts:  # the attention is ignored: its projections return these
            replaced = {
                site.output_projection: output[None]
                for site, output in zip(structures, outputs, strict=True)
            }
            args, kwargs = layer.arguments(self.step.row)
            return layer.run(args, kwargs, hidden=hidden[None], replace_output=replaced)[0]
        outputs_by_path, stream = {}, hidden
        for site, shortcut, output in zip(structures, self.shortcuts, outputs, strict=True):
            levels = site.levels(module, site.residual(module, stream), output)
            outputs_by_path[shortcut.path] = shortcut.pack(levels[shortcut.level][None])
            stream = levels["block"]
        return run_with_outputs(layer, self.step.row, outputs_by_path, hidden[None])


def push_tangents(
    function: Callable[..., tuple[Tensor, ...]],
    primals: tuple[Tensor, ...],
    tangents: tuple[Tensor, ...],
) -> tuple[Tensor, ...]:
    """Push the tangents [tangent, ...] of a function's arguments forward to its outputs."""

    def one(*tangent: Tensor) -> tuple[Tensor, ...]:
        result: tuple[Tensor, ...] = torch.func.jvp(function, primals, tangent)[1]
        return result

    with torch.no_grad():
        pushed: tuple[Tensor, ...] = torch.func.vmap(one)(*tangents)
    return pushed
