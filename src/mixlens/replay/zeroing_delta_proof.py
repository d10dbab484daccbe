"""Check that Value Zeroing of a layer may use products on the changes, and compute distances for a
few targets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mixlens.errors import TargetsUnavailable
from mixlens.kernels.differences import rounding
from mixlens.kernels.distances import prepared_for, separation
from mixlens.kernels.fused import zeroing as fused_zeroing
from mixlens.model.model_cache import Remembered
from mixlens.model.precision import matmul_precision
from mixlens.recording.deferred_checks import row_errors
from mixlens.replay.fallbacks import note_fallback
from mixlens.replay.layer_rest import LayerRest
from mixlens.replay.mlp import Mlp, perceptron
from mixlens.replay.zeroed_sources import (
    is_massive,
    nothing_zeroed,
    sources_of,
    sources_within,
)
from mixlens.replay.zeroing_deltas import ByChanges
from mixlens.replay.zeroing_products import folding_is_faster
from mixlens.replay.zeroing_rows import ByRows

_proofs: Remembered[bool] = Remembered()


def map_changes(
    layer_rest: LayerRest,
    real: Bool[Tensor, "batch target source"],
    places: Int[Tensor, "batch target"],
    *,
    distance: str,
    per_head: bool,
) -> ByChanges | None:
    """The fast form for targets of a whole layer, if this layer and device have one and it proves
    right, else None.

    `places`: where the targets are in the site's tensors.
    """
    layer, site = layer_rest.layer, layer_rest.site
    mlp = _matrices(layer_rest, distance)
    if mlp is None or is_massive(site):
        return None
    half = site.values.element_size() < 4  # its products are cheap, those of folding are not
    folded = not half and folding_is_faster(site, real, per_head=per_head)
    changes = ByChanges(layer_rest, mlp, places, distance=distance, folded=folded)
    texts = torch.arange(len(places), device=places.device)[:, None]
    recorded, asked = layer.output[texts, places], real.any(2)
    unedited = changes.unedited.outputs.view_as(recorded)
    if not bool(row_errors(unedited[asked][None], recorded[asked][None]) <= layer.rounding):
        return None
    return changes if _is_proved(layer_rest, distance, folded) else None


def row_changes(layer_rest: LayerRest, *, distance: str) -> ByChanges | None:
    """The same for all targets of a recording of rows. Its checks wait for the end of the pass."""
    layer, site, deferred = layer_rest.layer, layer_rest.site, layer_rest.layer.deferred
    mlp = _matrices(layer_rest, distance)
    assert deferred is not None
    if mlp is None or is_massive(site):
        return None
    changes, path = ByChanges(layer_rest, mlp, None, distance=distance, folded=False), layer.path
    recorded = layer.native_output.flatten(0, 1)
    deferred.rows_agree(changes.unedited.outputs, recorded, layer.rounding, _failure(path))
    return changes if _is_proved(layer_rest, distance, False) else None


def _matrices(layer_rest: LayerRest, distance: str) -> Mlp | None:
    """What follows attention, if distances can be had from products on what changed."""
    if layer_rest.mode != "shortcut" or distance not in fused_zeroing.DISTANCES:
        return None
    if layer_rest.site.gate is not None:  # what a source writes differs from target to target
        return None
    mlp = perceptron(layer_rest.layer, layer_rest.site.values.dtype)
    return None if mlp is None or mlp.after is not None else mlp


def _is_proved(layer_rest: LayerRest, distance: str, folded: bool) -> bool:
    layer, native = layer_rest.layer, layer_rest.site.values.dtype
    proof = _proofs.of(
        layer.model,
        (layer.path, layer_rest.kind, distance, folded, native, layer.has_one_token),
        lambda: _proved(layer_rest, distance, folded, native),
    )
    if not proof:
        note_fallback(layer, "Value Zeroing does without fused products, because they are off")
    return proof


def _failure(path: str) -> Callable[[float], Exception]:
    return lambda error: TargetsUnavailable(
        f"layer `{path}`: products of rows are off by {error:.1e} from what the layer returned"
    )


def row_distances(
    changes: ByChanges, last: Sequence[int], *, per_head: bool, rows: int
) -> Float[Tensor, "batch heads_or_one target source"]:
    """`changes` for all pairs of a few targets, up to the last source that any of them can see: no
    number is looked at on the way.

    Short texts go together, `rows` pairs at once.
    """
    weights = changes.layer_rest.site.weights
    batch, heads, count, sources = weights.shape
    step, texts_at_once = max(1, rows // count), max(1, rows // (count * max(last)))
    by_texts = []
    for first in range(0, batch, texts_at_once):
        texts = slice(first, first + texts_at_once)
        end, by_head = max(last[texts]), []
        for head in range(heads) if per_head else (None,):
            group = slice(None) if head is None else slice(head, head + 1)
            spans = []
            for start in range(0, end, step):
                part = slice(start, min(start + step, end))
                linked = weights[texts, group, :, part].any(1)
                spans.append(changes.pairs(texts, part, head) * linked)
            if end < sources:
                spans.append(weights.new_zeros(*spans[0].shape[:2], sources - end))
            by_head.append(spans[0] if len(spans) == 1 else torch.cat(spans, -1))
        by_texts.append(by_head[0][:, None] if len(by_head) == 1 else torch.stack(by_head, 1))
    return by_texts[0] if len(by_texts) == 1 else torch.cat(by_texts)


def block_distances(
    changes: ByChanges,
    weights: Float[Tensor, "batch head target source"],
    real: Bool[Tensor, "batch target source"],
    *,
    per_head: bool,
    rows: int,
) -> Float[Tensor, "batch heads_or_one target source"]:
    """`changes` for all pairs of these targets, zero if nothing links them.

    How far links reach is looked at once for all sources: each look makes a GPU wait.
    """
    batch, heads, count, sources = weights.shape
    scores = weights.new_zeros(batch, heads if per_head else 1, count, sources)
    groups = [slice(h, h + 1) for h in range(heads)] if per_head else [slice(0, heads)]
    for number, group in enumerate(groups):
        for text in range(batch):
            linked = weights[text, group].any(0) & real[text]
            for columns, targets in _linked_blocks(linked, max(1, rows // count)):
                few = sources_within(
                    changes.layer_rest.site, weights, linked, text, columns, targets, group
                )
                made = changes.block(few) * few.linked
                scores[text, number, targets, columns] = made.T
    return scores


def _linked_blocks(
    linked: Bool[Tensor, "target source"], size: int
) -> Iterator[tuple[slice, slice]]:
    """Sources, `size` at a time, with the range of targets that are linked with any of them."""
    marks = linked.byte()
    reach = torch.stack([marks.amax(0), marks.argmax(0), marks.flip(0).argmax(0)])
    ends = [
        (source, first, len(marks) - before_last)
        for source, (any_target, first, before_last) in enumerate(reach.T.tolist())
        if any_target
    ]
    for start in range(0, len(ends), size):
        columns, firsts, lasts = zip(*ends[start : start + size], strict=True)
        yield slice(columns[0], columns[-1] + 1), slice(min(firsts), max(lasts))


@torch.no_grad()
def _proved(layer_rest: LayerRest, distance: str, folded: bool, native: torch.dtype) -> bool:
    """Whether a few pairs of the whole layer, on a short input, have the distances that the layer's
    own code gives.
    """
    whole = LayerRest(layer_rest.layer.whole, layer_rest.kind, rows=layer_rest.rows)
    mlp = perceptron(whole.layer, native)
    if mlp is None or whole.mode != "shortcut":
        return False
    weights = whole.site.weights[:, :, :12]
    batch, heads, count, _ = weights.shape
    places = torch.arange(count, device=weights.device).expand(batch, count)
    changes = ByChanges(whole, mlp, places, distance=distance, folded=folded)
    rows = ByRows(whole, weights, places)
    linked = (weights[0] != 0).any(0)
    columns = linked.any(0).nonzero()[:, 0][:12]
    few = sources_of(whole.site, weights, linked, 0, columns, slice(0, heads))
    target = few.linked.nonzero()[:, 1] + few.targets.start
    prepare = prepared_for(distance)
    with matmul_precision("float32"):  # whole rows in TF32 would lose the change that is compared
        base = rows(nothing_zeroed(whole.site, 0, count))
        expected = separation(distance, prepare(rows(few)), prepare(base[target]))
    bar = 4 * max(rounding(whole.site.projected, native), rounding(whole.site.projected))
    return bool((changes(few) - expected).abs().max() <= bar * expected.abs().max())
