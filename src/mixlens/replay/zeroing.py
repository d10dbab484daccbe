"""Value Zeroing of a layer without running whole sequences again where possible.

The rest of a layer after its attention works on single tokens, so the layer's output for every pair
(i, j) is that rest on o_i - c_ij. Pairs without attention between them (the future, padding,
outside a window) are skipped: their distance is exactly zero. Pairs are processed a few sources at
a time, so that target x source x d_model numbers never exist at once.

`zeroing_literal` runs the layer's own code, `zeroing_fast` propagates only changes through the
matrices of an MLP. Either zeroes a token, or a segment of tokens at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mixlens.contracts import Targets
from mixlens.kernels.chunks import rows_at_once
from mixlens.kernels.distances import Distance
from mixlens.recording.attention import Attention
from mixlens.recording.layer import Layer
from mixlens.recording.upcast import bytes_of_a_row
from mixlens.replay.layer_rest import LayerRest
from mixlens.replay.zeroing_fast import FastZeroing, fast_zeroing
from mixlens.replay.zeroing_literal import LiteralZeroing, ZeroedBlock

Segments = Sequence[Sequence[Sequence[int]]]
"""For each text the positions of the sources in each segment."""


def zeroing_distances(
    layer: Layer,
    targets: Targets,
    distance: Distance,
    *,
    per_head: bool,
    segments: Segments | None = None,
) -> Float[Tensor, "batch heads_or_one target column"]:
    """Return the change of each target if a source, or with `segments` all sources of a segment at
    once, has values of zero: in all heads, or in one head at a time.
    """
    states = layer.native_input if targets.is_cut else layer.input
    row_bytes = bytes_of_a_row(layer.submodule(""), int(states.shape[-1]), states.dtype)
    rows = rows_at_once(row_bytes, layer.memory_budget, states.device)
    layer_rest = LayerRest(layer, targets.kind, rows=rows)
    site = layer_rest.site
    weights = targets.take(site.weights, 2)
    batch, heads, count, sources = weights.shape
    real = targets.real_pairs(targets.at(batch, count, weights.device), sources)
    folded = segments is None and _folding_is_faster(site, real, per_head=per_head)
    form: FastZeroing | LiteralZeroing | None = fast_zeroing(
        layer_rest, weights, targets.take, real, distance, folded=folded
    )
    if form is None:
        places = targets.places(batch, count, weights.device)
        texts = torch.arange(batch, device=weights.device)[:, None].expand_as(places)
        layer_rest.require_recorded_output(texts.reshape(-1), places.reshape(-1))
        form = LiteralZeroing(layer_rest, weights, places, distance)
    columns = sources if segments is None else max(map(len, segments))
    scores = weights.new_zeros(batch, heads if per_head else 1, count, columns)
    for number, head in enumerate(range(heads) if per_head else (None,)):
        read = weights if head is None else weights[:, head : head + 1]
        if form.mixes:  # a wanted target may change with one that is not wanted
            every = site.weights if head is None else site.weights[:, head : head + 1]
            read = every.any(2, keepdim=True).expand(-1, -1, count, -1)
        if segments is not None:
            blocks = _segment_blocks(read, real, segments, head, max(1, rows // count))
        elif targets.is_cut:
            blocks = _leading_blocks(read, _last_sources(targets, site), head, rows)
        else:
            blocks = _linked_blocks(read, real, head, max(1, rows // count))
        for block, linked in blocks:
            made = form.distances(block, linked)
            scores[block.texts, number, block.targets, block.columns] = made
    return scores


Blocks = Iterator[tuple[ZeroedBlock, Bool[Tensor, "text target column"]]]


def _linked_blocks(read: Tensor, real: Tensor, head: int | None, size: int) -> Blocks:
    """Yield sources, `size` at a time, with the range of targets that read any of them.

    The range of links is read once for all sources of a text, because each read makes a GPU wait.
    """
    for text in range(len(read)):
        linked = read[text].any(0) & real[text]
        marks = linked.byte()
        reach = torch.stack([marks.amax(0), marks.argmax(0), marks.flip(0).argmax(0)])
        ends = [
            (source, first, len(marks) - before_last)
            for source, (any_target, first, before_last) in enumerate(reach.T.tolist())
            if any_target
        ]
        for start in range(0, len(ends), size):
            columns, firsts, lasts = zip(*ends[start : start + size], strict=True)
            targets, part = slice(min(firsts), max(lasts)), slice(columns[0], columns[-1] + 1)
            block = ZeroedBlock(slice(text, text + 1), targets, part, head)
            yield block, linked[None, targets, part]


def _leading_blocks(read: Tensor, last: Sequence[int], head: int | None, rows: int) -> Blocks:
    """Yield all targets with the sources up to the last one that any of them can see, without
    reading a number. Short texts go together, `rows` pairs at once.
    """
    batch, _, count, _ = read.shape
    step, texts_at_once = max(1, rows // count), max(1, rows // (count * max(last)))
    for first in range(0, batch, texts_at_once):
        texts = slice(first, min(first + texts_at_once, batch))
        end = max(last[texts])
        for start in range(0, end, step):
            part = slice(start, min(start + step, end))
            yield ZeroedBlock(texts, slice(0, count), part, head), read[texts, ..., part].any(1)


def _segment_blocks(
    read: Tensor, real: Tensor, segments: Segments, head: int | None, size: int
) -> Blocks:
    """Yield all targets of a text with `size` segments at a time."""
    for text, positions in enumerate(segments):
        own = [torch.tensor(members, device=read.device) for members in positions]
        linked = read[text].any(0) & real[text]
        for start in range(0, len(own), size):
            part = slice(start, min(start + size, len(own)))
            links = torch.stack([linked[:, members].any(1) for members in own[part]], 1)
            block = ZeroedBlock(slice(text, text + 1), slice(0, len(linked)), part, head, own)
            yield block, links[None]


def _last_sources(targets: Targets, site: Attention) -> list[int]:
    """Return the number of sources that any target of each text can see."""
    counts, ends = list(targets.source_lengths), site.visibility.ends
    if ends is None:
        return counts
    ends = ends * (len(counts) // len(ends))  # one for all texts
    return [max(1, min(pair)) for pair in zip(counts, ends, strict=True)]


def _folding_is_faster(
    site: Attention, real: Bool[Tensor, "batch target source"], *, per_head: bool
) -> bool:
    """Return whether there are so many pairs that the first product is cheaper before they are
    formed.
    """
    if site.values.element_size() < 4 or site.projection is None:
        return False  # products in half precision are cheap
    d_model, heads = int(site.projected.shape[-1]), site.structure.heads
    at_once, pairs = (1, real.numel() * heads) if per_head else (heads, real.numel())
    return pairs * (d_model - at_once) >= 1.2 * d_model * (d_model + real.shape[0] * real.shape[2])
