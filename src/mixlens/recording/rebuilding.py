"""Rebuild the attention of a layer from its structure, and compare it with captured tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from mixlens.capture.attention_call import AttentionCall, Visibility
from mixlens.capture.layer_calls import HookPoint
from mixlens.errors import TargetsUnavailable, UnsupportedModel
from mixlens.kernels.decomposition import ChannelSlice
from mixlens.kernels.differences import (
    attention_product,
    largest_difference,
    product_errors,
    rounding,
    sum_errors,
    weighted_sum_errors,
)
from mixlens.kernels.half_products import multiply_wide
from mixlens.model.module_walk import part_at
from mixlens.model.readable_weights import make_readable, own_columns_of
from mixlens.recording.attention import Attention, Block, BlockParts, OutputWeight, Projection
from mixlens.recording.deferred_checks import (
    DeferredChecks,
    require_small,
    row_errors,
    waiting_for,
)
from mixlens.structure.layer_structure import (
    Affine,
    AttentionStructure,
    LayerStructure,
    affine_map,
    plain_matrix,
)
from mixlens.structure.norms import LinearisedNorm, norm_of


@dataclass(frozen=True)
class Internals:
    """The captured tensors of one attention call."""

    attention: AttentionCall
    captured: Mapping[HookPoint, Tensor]
    layer_output: Tensor | None  # None if the forward pass stopped after the attention block
    deferred: DeferredChecks | None = None  # if checks wait for the end of the pass

    @classmethod
    def of_layer(
        cls,
        calls: Sequence[AttentionCall],
        captured: Mapping[HookPoint, Tensor],
        output: Tensor | None,
        sites: Sequence[AttentionStructure],
        deferred: DeferredChecks | None = None,
    ) -> list[Internals]:
        """Return the captured tensors of each attention call of a layer."""
        return [
            cls(call.with_heads(site.heads, site.kv_heads), captured, output, deferred)
            for call, site in zip(calls, sites, strict=True)
        ]

    @property
    def nbytes(self) -> int:
        """Return the size in bytes of the captured tensors and of the attention rebuilt from them.

        The rebuilt attention is included because it repeats the values of grouped heads and stores
        the parts of the block's output.
        """
        call = self.attention
        tensors = [call.weights, call.values, call.output, *self.captured.values()]
        sizes = [tensor.numel() * tensor.element_size() for tensor in tensors]
        return sum(sizes) + 5 * max(sizes[2:])


def rebuilt_site(
    structure: AttentionStructure,
    layer: LayerStructure,
    module: nn.Module,
    stream: Float[Tensor, "batch target d_model"],
    internals: Internals,
    where: str,
    gate: Tensor | None = None,
) -> Attention:
    """Rebuild an attention from captured tensors.

    Raise `UnsupportedModel` if its parts do not add up to the captured output. `gate` contains the
    factors of a gated attention.
    """
    attention, is_single_target = internals.attention, internals.attention.product is not None
    weights = attention.weights.to(stream)
    values = attention.values if is_single_target else attention.values.to(stream)
    _require_plain_shapes(weights, values, attention, stream, where)
    if is_single_target and structure.gated:
        raise TargetsUnavailable(f"{where}: a gated attention must be re-run on the whole sequence")
    if not is_single_target and weights.shape[1] != values.shape[1]:
        values = values.repeat_interleave(weights.shape[1] // values.shape[1], 1)
    gate = None if gate is None else gate.to(stream)
    errors: dict[str, Tensor] = {}
    checks: dict[str, _Check] = {}
    projection: Projection | None = None
    if structure.projection is None:
        output = attention.output.to(stream)
        errors["attention product"] = attention_product(
            weights, values, output, attention.output.dtype
        )[1]
    else:
        projection, errors, checks = _projection(
            structure, module, stream, internals, weights, values, gate, where
        )
    parts: BlockParts | None = None
    if structure.open is None:
        assert projection is not None
        parts = _block_parts(structure, module, stream, projection.output, where)
        blocks = _blocks(parts.block, structure, layer, internals)
        checks["block output"] = (row_errors if is_single_target else sum_errors), blocks
    _require_rounding(structure, internals, where, errors, checks)
    return Attention(
        structure=structure,
        weights=weights,
        values=values,
        half=attention.output.element_size() < 4,
        visibility=attention.visibility or Visibility.of_weights(weights),
        gate=gate,
        projection=projection,
        block_parts=parts,
        errors=errors,
    )


_Check = tuple[Callable[..., Tensor], tuple[Tensor, ...]]
"""Errors of tensors against their expected values, each stacked with those of other layers."""


def _projection(
    structure: AttentionStructure,
    module: nn.Module,
    stream: Tensor,
    internals: Internals,
    weights: Tensor,
    values: Tensor,
    gate: Tensor | None,
    where: str,
) -> tuple[Projection, dict[str, Tensor], dict[str, _Check]]:
    """Return the output projection, the errors of its output, and the checks to run."""
    path, inputs = structure.output_projection, structure.heads * structure.d_head
    part, dtype = part_at(module, path), internals.attention.output.dtype
    is_single_target = internals.attention.product is not None

    def read_whole() -> tuple[OutputWeight, Tensor]:
        projecting = make_readable(part, dtype)
        affine = affine_map(projecting, inputs, stream)
        if affine is None:
            raise UnsupportedModel(f"{where}: `{path}` is no longer an affine map")
        return OutputWeight(
            affine[0], plain_matrix(projecting) if is_single_target else None
        ), affine[1]

    columns = _own_columns(part, inputs, stream) if is_single_target else None
    weight, bias = read_whole() if columns is None else columns
    affine = weight.matrix, bias
    errors: dict[str, Tensor] = {}
    if is_single_target:
        projected, checks = _project_targets(path, weight, bias, internals, stream)
    elif internals.attention.output.dtype == stream.dtype and gate is None:
        projected, checks = _check_projection(path, weights, values, affine, internals, stream)
    else:
        checks = {}
        projected, errors = _project(path, weights, values, affine, gate, internals, stream)
    projection = Projection(
        heads=structure.heads,
        own=weight,
        read_whole=lambda: _whole(read_whole()[0], weight, where, path),
        bias=bias,
        output=projected,
    )
    return projection, errors, checks


def _whole(weight: OutputWeight, local_weight: OutputWeight, where: str, path: str) -> OutputWeight:
    """Return the full matrix, gathered from all processes. Check (or defer the check) that it
    contains this process's own columns, which are already verified.
    """
    different = (local_weight.channels.of(weight.matrix) != local_weight.matrix).any().float()
    message = f"{where}: the gathered weight of `{path}` has other columns than the checked ones"
    require_small(different, 0.0, lambda _: TargetsUnavailable(message))
    return weight


def _own_columns(
    part: nn.Module, inputs: int, stream: Tensor
) -> tuple[OutputWeight, Tensor] | None:
    """Return this process's columns of an output projection, and the full bias.

    Return None if the columns are not sharded across processes.
    """
    columns = own_columns_of(part)
    if columns is None or len(columns.matrix) != inputs:
        return None
    channels = ChannelSlice(columns.start, columns.start + columns.matrix.shape[1], columns.gather)
    bias = columns.bias
    bias = stream.new_zeros(stream.shape[-1]) if bias is None else bias.detach().to(stream)
    return OutputWeight(columns.matrix.to(stream), columns.matrix, channels), bias


def _block_parts(
    structure: AttentionStructure, module: nn.Module, stream: Tensor, projected: Tensor, where: str
) -> BlockParts:
    norm = functools.partial(_norm, module, stream, where)
    residual = stream if structure.residual_from is None else norm(structure.residual_from)(stream)
    branch = tuple(norm(path) for path in structure.branch)
    output_norm = None if structure.output_norm is None else norm(structure.output_norm)
    block = Block.of(structure, residual, projected, branch, output_norm)
    return BlockParts(residual=residual, branch=branch, output_norm=output_norm, block=block)


def _norm(module: nn.Module, stream: Tensor, where: str, path: str) -> LinearisedNorm:
    form = norm_of(make_readable(module.get_submodule(path), stream.dtype), stream)
    if form is None:
        raise UnsupportedModel(f"{where}: `{path}` is no longer a norm or a scale")
    return form


def _require_rounding(
    structure: AttentionStructure,
    internals: Internals,
    where: str,
    errors: dict[str, Tensor],
    checks: Mapping[str, _Check],
) -> None:
    """Raise an exception if an error is too large to be explained by rounding.

    Comparisons that can be deferred run later, for all layers at once. Comparisons that run
    immediately add their result to `errors`.
    """
    bar = rounding(internals.attention.output)
    is_single_target = internals.attention.product is not None

    def failure(part: str, error: float) -> UnsupportedModel:
        return (TargetsUnavailable if is_single_target else UnsupportedModel)(
            f"{where}, {structure.kind}-attention: the rebuilt {part} is off by {error:.1e} "
            f"(relative; {bar:.0e} would be rounding). mixlens gives no scores for this "
            "model; please report its architecture."
        )

    for part, (error, tensors) in checks.items():
        deferred = internals.deferred or waiting_for(*tensors)
        if deferred is not None:
            deferred.stacked_error_is_small(error, tensors, bar, functools.partial(failure, part))
        else:
            errors[part] = error(*(tensor[None] for tensor in tensors))[0]
    for part, part_errors in errors.items():
        require_small(part_errors, bar, functools.partial(failure, part))


def _project_targets(
    path: str, weight: OutputWeight, bias: Tensor, internals: Internals, stream: Tensor
) -> tuple[Tensor, dict[str, _Check]]:
    """Return the output of the projection in single-target mode, where attention weights were
    recomputed, and the checks to run.
    """
    attention, inputs = internals.attention, len(weight.matrix)
    assert attention.product is not None
    captured, output = (
        internals.captured[HookPoint(path, "out")].reshape(stream.shape),
        attention.output,
    )
    product = attention.product.to(stream)
    native = weight.matrix if weight.native is None else weight.native
    rows = product.reshape(1, -1, inputs)
    part = multiply_wide(rows, native[None], weight.channels.of(bias))
    remade = weight.channels.join(part).view(stream.shape)
    tokens = output.reshape(*output.shape[:2], 1, -1)  # all heads of one token
    checks: dict[str, _Check] = {
        "attention product": (row_errors, (product, output, tokens)),
        "output projection": (row_errors, (remade, captured)),
    }
    return (captured if output.dtype == stream.dtype else remade), checks


def _check_projection(
    path: str,
    weights: Tensor,
    values: Tensor,
    affine: Affine,
    internals: Internals,
    stream: Tensor,
) -> tuple[Tensor, dict[str, _Check]]:
    """Return the captured output of the projection, and the checks to run.

    The captured tensor already has full precision, so the output is not computed again.
    """
    captured, output = internals.captured[HookPoint(path, "out")], internals.attention.output
    captured = captured.reshape(*stream.shape[:2], -1)
    return captured, {
        "attention product": (weighted_sum_errors, (output.transpose(1, 2), weights, values)),
        "output projection": (product_errors, (captured, output.flatten(2), *affine)),
    }


def _project(
    path: str,
    weights: Tensor,
    values: Tensor,
    affine: Affine,
    gate: Tensor | None,
    internals: Internals,
    stream: Tensor,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the output of the projection, and the relative errors of A V and of this output.

    Both are compared with the captured tensors.
    """
    (matrix, bias), output = affine, internals.attention.output.to(stream)
    dtype = internals.attention.output.dtype
    captured = internals.captured[HookPoint(path, "out")].to(stream).reshape(*stream.shape[:2], -1)
    if gate is not None:
        output = internals.captured[HookPoint(path, "in")].to(stream).reshape(output.shape)
        product = gate * (weights @ values).transpose(1, 2)
        product_error = largest_difference(product.flatten(2), output.flatten(2), dtype=dtype)
    else:
        product, product_error = attention_product(weights, values, output, dtype)
    if dtype == stream.dtype:
        projected, tensors = captured, (captured, output.flatten(2), matrix, bias)
        projection_error = product_errors(*(tensor[None] for tensor in tensors))[0]
    else:
        projected = product.flatten(2) @ matrix + bias
        projection_error = largest_difference(projected, captured, dtype=dtype)
    return projected, {"attention product": product_error, "output projection": projection_error}


def _blocks(
    block: Block, structure: AttentionStructure, layer: LayerStructure, internals: Internals
) -> tuple[Tensor, ...]:
    """Return the rebuilt block output y, the captured tensor to compare it with, and the terms of
    the sum.
    """
    rebuilt, output = block.total, internals.layer_output
    if structure.hook_point is not None:
        captured = internals.captured[structure.hook_point].reshape(rebuilt.shape)
        if not structure.parallel:
            return rebuilt, captured, block.own, rebuilt
    assert output is not None  # the pass stops early only if both hold
    if structure.hook_point is None:
        return rebuilt, output, block.own, rebuilt
    assert layer.feed_forward is not None
    added = layer.feed_forward.scale_branch(captured.to(rebuilt))
    return rebuilt + added, output, block.own, rebuilt, added


def _require_plain_shapes(
    weights: Tensor, values: Tensor, attention: AttentionCall, stream: Tensor, where: str
) -> None:
    batch, heads, targets, sources = weights.shape
    ok = batch == stream.shape[0] and targets == stream.shape[1] and heads % values.shape[1] == 0
    ok = ok and values.shape[0] == batch and values.shape[2] == sources
    if not ok or tuple(attention.output.shape) != (batch, targets, heads, values.shape[-1]):
        raise UnsupportedModel(
            f"{where}: attention works on pieces of the sequence (weights {tuple(weights.shape)}"
            f" for hidden states {tuple(stream.shape)}), as window, block and sparse attention do."
            " These are not supported."
        )
