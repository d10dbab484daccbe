"""Value Zeroing without running whole sequences again: choose the fastest exact form.

The rest of a layer after its attention works on rows. So the layer's output for every pair (i, j)
is that rest on the rows o_i - c_ij. Pairs with no attention between them (the future, padding,
outside a window) are left out: their distance is exactly zero. Pairs are taken a few sources at a
time, so that target x source x d_model numbers never exist at once.

`ByProducts` is for feed-forward parts that are perceptrons, `ByRows` runs the layer's own code, and
`BySequences` the whole layer if its rest does not work on rows. `ByValues` does so with other
values if no output projection is known.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mixlens.kernels.chunks import chunked
from mixlens.kernels.differences import difference, same_bar
from mixlens.kernels.distances import Rows
from mixlens.recording.attention import Attention
from mixlens.replay.fallbacks import note_fallback
from mixlens.replay.layer_rest import LayerRest
from mixlens.replay.mlp import Mlp, perceptron
from mixlens.replay.zeroed_sources import Rest, is_massive, nothing_zeroed, sources_of
from mixlens.replay.zeroing_products import ByProducts, folding_is_faster
from mixlens.replay.zeroing_rows import ByRows, BySequences
from mixlens.replay.zeroing_values import ByValues


def changed(
    rest: Rest,
    site: Attention,
    weights: Float[Tensor, "batch head target source"],
    real: Bool[Tensor, "batch target source"],
    compare: Callable[[int, Int[Tensor, " row"], Rows], Float[Tensor, " row"]],
    *,
    per_head: bool,
    rows: int,
) -> Float[Tensor, "batch heads_or_one target source"]:
    """`compare(text, targets, outputs)` for every linked pair, zero elsewhere.

    `weights` are those of the wanted targets.
    """
    batch, heads, count, sources = weights.shape
    scores = weights.new_zeros(batch, heads if per_head else 1, count, sources)
    groups = [slice(h, h + 1) for h in range(heads)] if per_head else [slice(0, heads)]
    for number, group in enumerate(groups):
        for text in range(batch):
            linked = (weights[text, group] != 0).any(0) & real[text]
            if rest.mixes:  # a wanted target may change with one that is not wanted
                linked = (site.weights[text, group] != 0).any(0).any(0) & real[text]
            for columns in chunked(linked.any(0).nonzero()[:, 0], max(1, rows // count)):
                part = sources_of(site, weights, linked, text, columns, group)
                k, target = part.linked.nonzero().unbind(1)
                target = target + part.targets.start
                scores[text, number, target, columns[k]] = compare(text, target, rest(part))
    return scores


def feed_forward_matrices(layer_rest: LayerRest) -> Mlp | None:
    """What follows attention as matrices, if the layer has that form and its values allow it."""
    if layer_rest.mode != "shortcut":
        return None
    if layer_rest.site.gate is not None:
        reason = "a gate makes what a source writes differ from target to target"
    elif is_massive(layer_rest.site):
        reason = "a value is a thousand times as large as the others"
    elif (mlp := perceptron(layer_rest.layer)) is not None:
        return mlp
    else:
        reason = "what follows attention is not one norm and a perceptron"
    note_fallback(layer_rest.layer, f"Value Zeroing runs the layer's own code, because {reason}")
    return None


def fastest_rest(
    layer_rest: LayerRest,
    weights: Tensor,
    real: Tensor,
    positions: Int[Tensor, "batch target"],
    *,
    per_head: bool,
) -> Rest:
    """By products if the layer allows it and they prove right, else by rows."""
    if layer_rest.site.projection is None:
        return ByValues(layer_rest, positions)
    if layer_rest.mode == "sequences":
        return BySequences(layer_rest, positions)
    by_rows, mlp = ByRows(layer_rest, weights, positions), feed_forward_matrices(layer_rest)
    texts = torch.arange(len(positions), device=positions.device)[:, None].expand_as(positions)
    if mlp is not None:
        folded = folding_is_faster(layer_rest.site, real, per_head=per_head)
        by_products = ByProducts(layer_rest, mlp, positions, folded=folded)
        if _proved(by_products, by_rows, weights, real, layer_rest.layer.output[texts, positions]):
            return by_products
        note_fallback(
            layer_rest.layer,
            "Value Zeroing runs the layer's own code, because products of its matrices are off",
        )
    layer_rest.require_recorded_output(texts.reshape(-1), positions.reshape(-1))
    return BySequences(layer_rest, positions) if layer_rest.mode == "sequences" else by_rows


def _proved(
    by_products: ByProducts, by_rows: ByRows, weights: Tensor, real: Tensor, recorded: Tensor
) -> bool:
    """Whether products give what the layer returned, and for a few pairs of the first text what the
    layer's own code gives.
    """
    layer_rest, asked = by_products.layer_rest, real.any(2)
    unedited = torch.stack(
        [
            by_products(nothing_zeroed(layer_rest.site, text, real.shape[1]))
            for text in range(len(real))
        ]
    )
    if not difference(unedited[asked], recorded[asked]) <= layer_rest.layer.rounding:
        return False
    linked = (weights[0] != 0).any(0) & real[0]
    columns = linked.any(0).nonzero()[:, 0]
    columns = columns[torch.linspace(0, len(columns) - 1, 3).long().unique()]  # type: ignore[no-untyped-call]
    few = sources_of(layer_rest.site, weights, linked, 0, columns, slice(0, int(weights.shape[1])))
    return difference(by_products(few), by_rows(few)) <= same_bar(weights)
