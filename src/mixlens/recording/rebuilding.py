"""An attention site rebuilt from the discovered structure, and checked against what was seen."""

from __future__ import annotations

import functools

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mixlens.errors import RowsUnavailable, UnsupportedModel
from mixlens.recording.block import Block
from mixlens.recording.differences import (
    attention_error,
    difference,
    product_difference,
    rounding,
    row_sizes,
)
from mixlens.recording.internals import Internals
from mixlens.recording.listener import AttentionCall
from mixlens.recording.norms import LinearisedNorm, norm_of
from mixlens.recording.projection import affine_map
from mixlens.recording.site import Site
from mixlens.recording.structure import LayerStructure, SiteStructure, Witness


def rebuilt_site(
    structure: SiteStructure,
    layer: LayerStructure,
    module: nn.Module,
    stream: Float[Tensor, "batch target d_model"],
    internals: Internals,
    where: str,
) -> Site:
    """The site from what was overheard; raises `UnsupportedModel` if its parts do not add up."""
    attention, dtype = internals.attention, internals.attention.output.dtype
    weights, rows = attention.weights.to(stream), attention.product is not None
    values = attention.values if rows else attention.values.to(stream)
    _require_plain_shapes(weights, values, attention, stream, where)
    if not rows:
        values = values.repeat_interleave(weights.shape[1] // values.shape[1], 1)
    path = structure.output_projection
    affine = affine_map(module.get_submodule(path), structure.heads * structure.d_head, stream)
    if affine is None:
        raise UnsupportedModel(f"{where}: `{path}` is no longer an affine map")
    matrix, bias = affine
    seen, output = internals.seen[Witness(path, "out")].reshape(stream.shape), attention.output
    product_error = projection_error = 0.0
    waiting: dict[str, tuple[Tensor, ...]] = {}
    if attention.product is not None:
        product = attention.product.to(stream)
        remade = product.flatten(2) @ matrix + bias
        projected = seen if dtype == stream.dtype else remade
        tokens = output.flatten(2)[:, :, None]  # all heads of one token
        waiting["attention product"] = (product, output, tokens)
        waiting["output projection"] = (remade, seen)
    elif dtype == stream.dtype:  # what was seen has all its digits: no product is made again
        projected = seen
        product_error = product_difference(output.transpose(1, 2), weights, values)
        projection_error = product_difference(seen, output.flatten(2), matrix, bias)
    else:
        projected = (weights @ values).transpose(1, 2).flatten(2) @ matrix + bias
        product_error = attention_error(weights, values, output.to(stream), dtype)
        projection_error = difference(projected, seen.to(stream), dtype=dtype)

    def norm(path: str) -> LinearisedNorm:
        form = norm_of(module.get_submodule(path), stream)
        if form is None:
            raise UnsupportedModel(f"{where}: `{path}` is no longer a norm or a scale")
        return form

    residual = stream if structure.residual_from is None else norm(structure.residual_from)(stream)
    branch = tuple(norm(path) for path in structure.branch)
    output_norm = None if structure.output_norm is None else norm(structure.output_norm)
    block = Block.of(structure, residual, projected, branch, output_norm)
    bar = rounding(stream, dtype)
    errors: dict[str, float] = {}

    def failure(part: str, error: float) -> UnsupportedModel:
        return (RowsUnavailable if rows else UnsupportedModel)(
            f"{where}, {structure.kind}-attention: the rebuilt {part} is off by {error:.1e}"
            f" (relative; {bar:.0e} would be rounding). No numbers are given for this model; please"
            " report its architecture."
        )

    if internals.doubts is not None:
        waiting["block output"] = _blocks(block, structure, layer, internals)
        for part, (made, expected, *summands) in waiting.items():
            failed = functools.partial(failure, part)
            internals.doubts.rows_agree(made, expected, bar, failed, summands)
    else:
        errors = {
            "attention product": product_error,
            "output projection": projection_error,
            "block output": _block_error(block, structure, layer, internals),
        }
    for part, error in errors.items():
        if not error <= bar:
            raise failure(part, error)
    return Site(
        structure=structure,
        weights=weights,
        values=values,
        output_weight=matrix.reshape(structure.heads, structure.d_head, -1),
        output_bias=bias,
        residual=residual,
        projected=projected,
        branch=branch,
        output_norm=output_norm,
        block=block,
        errors=errors,
    )


def _block_error(
    block: Block, structure: SiteStructure, layer: LayerStructure, internals: Internals
) -> float:
    """How far y is from the tensor in which the running layer had it."""
    rebuilt, expected, *summands = _blocks(block, structure, layer, internals)
    size = functools.reduce(torch.maximum, map(row_sizes, summands))
    return difference(rebuilt, expected.to(rebuilt), size, internals.layer_output.dtype)


def _blocks(
    block: Block, structure: SiteStructure, layer: LayerStructure, internals: Internals
) -> tuple[Tensor, ...]:
    """y, the tensor in which the running layer had it, and what was summed up."""
    rebuilt, output = block.total, internals.layer_output
    if structure.witness is None:
        return rebuilt, output, block.own, rebuilt
    seen = internals.seen[structure.witness].reshape(rebuilt.shape)
    if not structure.parallel:
        return rebuilt, seen, block.own, rebuilt
    assert layer.feed_forward is not None
    added = layer.feed_forward.scaled(seen.to(rebuilt))
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
