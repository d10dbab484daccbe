"""Value Zeroing: the distance between a token's new representation with and without the value
vector of another token.

Mohebbi, Zuidema, Chrupała, Alishahi, "Quantifying Context Mixing in Transformers", EACL 2023, eq.
10: C_ij = distance(e_i, e_i with v_j = 0 in every head); attention weights stay fixed, and the rest
of the layer is recomputed.

The distance is the cosine distance (as in the paper), the Euclidean distance, or one minus
Spearman's correlation of the channels. `normalised=True` first standardises every representation to
mean zero and variance one over its channels. The paper shows results for normalised representations
(figure A.1) without a formula, and the published code mentions the option but does not implement
it. With grouped heads `per_head` scores every query head: its own part A^h f^h is removed, not the
value that it shares with other heads. Scores are not normalised. The authors' code normalises them
before rollout, like `normalised()` in mixlens.

With `segments` all values of a segment are set to zero at once: distance(e_i, e_i without sum_j
c_ij over the tokens j of the segment). The score is the joint effect of the segment, not the sum of
the effects of its tokens. A segment costs as much as a single token.

With `sample=n` the score of a span is estimated from n of its targets, drawn without replacement,
and `extras["standard_error"]` is the standard error of the mean. The exact mean has no shortcut,
because the rest of the layer must run for every pair of target and source.

With `span="joint"` the score is the distance of the stacked states w_i e_i. If d_i is the change of
e_i, the sums of w_i^2 |d_i|^2, w_i^2 e_i d_i and w_i^2 |e_i|^2 over the targets determine the
distance.

The rest of a layer after its attention processes each token separately, so the layer's output for a
pair (i, j) is the rest of the layer applied to o_i - c_ij. Pairs without attention between them
(the future, padding, outside a window) are skipped: their distance is exactly zero. Only a few
sources are processed at a time, so that no tensor of target x source x d_model numbers is needed.
`zeroing_literal` runs the layer's own code. `zeroing_fast` propagates only the changes through the
matrices of an MLP. Both can zero one token, or a segment of tokens at once.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mixlens.contracts import Facts, LayerScores, SpanRule, Spec, Targets
from mixlens.errors import InvalidInput
from mixlens.kernels.chunks import in_float64, rows_at_once
from mixlens.kernels.distances import DISTANCES, Distance, standardise
from mixlens.recording.attention import Attention
from mixlens.recording.layer import Layer
from mixlens.replay.layer_rest import LayerRest, bytes_of_a_row
from mixlens.replay.zeroing_fast import FastZeroing, fast_zeroing
from mixlens.replay.zeroing_literal import LiteralZeroing, ZeroedBlock

SPEC = Spec(
    summary=(
        "distance between a token's new representation with and without the value vector of each"
        " other token"
    ),
    citation='Mohebbi et al. (2023), "Quantifying Context Mixing in Transformers", EACL, eq. 10',
    use_when=(
        "to see what a whole layer mixes, with its MLP, norms and residual stream; attention"
        " weights stay fixed"
    ),
    cost="about 0.4 n forward passes for all targets, 2 to 3 for one",
    facts=Facts(),
    per_head=True,
    row_by_row=True,
    limitations=(
        "removes one value at a time, through the whole layer, so two values that cancel look"
        " important. It leaves out the residual stream. If a token attends only to the start token"
        " in some layer, its earlier content is lost. A value that reached the state counts, even"
        " if the output does not read it"
    ),
    memory=lambda sizes: (
        2 * sizes.matrix
        + 2 * sizes.targets * (sizes.d_ff + sizes.d_model)
        + sizes.targets * sizes.heads * sizes.d_ff
        + sizes.chunk
    ),
    empty_below=10,
)


@torch.no_grad()
def score_layer(
    layer: Layer,
    attention: Attention,
    targets: Targets,
    *,
    per_head: bool = False,
    distance: str = "cosine",
    normalised: bool = False,
    segments: Any = None,
    sample: int | None = None,
    seed: int = 0,
) -> LayerScores:
    """Return the Value Zeroing distances.

    `distance` is "cosine", "euclidean" or "spearman"; `normalised` compares standardised
    representations; `segments` zeroes all values of a segment at once. `sample` is the number of
    targets drawn from a span with `seed`; they are drawn before any layer is scored.
    """
    if sample is not None and targets.weights is None:
        raise InvalidInput(f"sample={sample!r} needs a span. Pass span='mean' with the targets.")
    if distance not in DISTANCES:
        raise InvalidInput(f"Unknown distance {distance!r}. Choose one of: {', '.join(DISTANCES)}.")
    scores = _measure_changes(layer, targets, Distance(distance, normalised), per_head, segments)
    return replace(scores, scale=_rounding_scale(layer, targets, distance))


def _measure_changes(
    layer: Layer, targets: Targets, distance: Distance, per_head: bool, segments: Any
) -> LayerScores:
    segments_by_text = None if segments is None else targets.segments(segments)
    values = zeroing_distances(
        layer,
        targets,
        distance,
        per_head=per_head,
        segments=None
        if segments_by_text is None
        else [list(text.values()) for text in segments_by_text],
    )
    return LayerScores(
        values if per_head else values[:, 0],
        source_labels=None
        if segments_by_text is None
        else [tuple(text) for text in segments_by_text],
    )


@torch.no_grad()
def _square(
    layer: Layer,
    attention: Attention,
    targets: Targets,
    *,
    per_head: bool = False,
    distance: str = "cosine",
    normalised: bool = False,
    segments: Any = None,
    **_: Any,
) -> LayerScores:
    """Return the squared norm of every change, and the other terms that a joint distance needs.

    `extras` contains the squared norm of each state and, for the cosine distance, the dot product
    of change and state. The dot products need a second run of the rest of the layer.
    """
    if distance not in ("cosine", "euclidean"):
        raise InvalidInput(
            f"distance={distance!r} does not support span='joint'. Use span='mean', or the distance"
            " 'cosine' or 'euclidean'."
        )
    lengths = _measure_changes(
        layer, targets, Distance("euclidean", normalised), per_head, segments
    )
    states = in_float64(targets.take(layer.output, 1))
    sizes = (standardise(states) if normalised else states).square().sum(-1)
    extras, dims = {"sizes": sizes}, ("head", "target", "source")
    if distance == "cosine":
        along = Distance("projection", normalised)
        products = _measure_changes(layer, targets, along, per_head, segments)
        extras["products"] = products.values
    return replace(
        lengths,
        values=lengths.values.square(),
        extras=extras,
        extra_dims={"sizes": ("target",), "products": dims if per_head else dims[1:]},
    )


def _unite(squares: LayerScores, *, distance: str = "cosine", **_: Any) -> LayerScores:
    """Return the distance of the stacked states a and b = a + d from |d|^2, a d and |a|^2.

    The cosine distance is computed as (|d|^2 - (|b| - |a|)^2) / (2 |a| |b|), which is accurate for
    small changes.
    """
    d, sizes = in_float64(squares.values), squares.extras["sizes"]
    dtype = squares.values.dtype
    if distance == "euclidean":
        values = d.sqrt().to(dtype)
        return replace(squares, values=values, extras={}, extra_dims={}, scale=sizes.sqrt())
    a = in_float64(sizes).view(len(sizes), *[1] * (d.dim() - 1))
    gain = 2 * in_float64(squares.extras["products"]) + d
    length, other = a.sqrt(), (a + gain).clamp_min(0).sqrt()
    tiny = torch.finfo(dtype).tiny
    squared_sine = d - (gain / (length + other).clamp_min(tiny)).square()
    values = squared_sine.clamp_min(0) / (2 * length * other).clamp_min(tiny)
    scale = _epsilon(dtype, d.device).expand(sizes.shape)
    return replace(squares, values=values.to(dtype), extras={}, extra_dims={}, scale=scale)


SPAN = SpanRule(
    square=_square,
    unite=_unite,
    samples=True,
    refused={
        "sum": "every value is zeroed in the layer of each target, and distances do not add up",
    },
)


def _rounding_scale(layer: Layer, targets: Targets, distance: str) -> Float[Tensor, "batch target"]:
    """Return the scale of the rounding errors of a distance.

    For the Euclidean distance, this is the norm of each state. For the other distances, it is the
    machine epsilon.
    """
    if distance == "euclidean":
        return targets.take(layer.output.norm(dim=-1), 1)
    states = layer.input  # as wide and as many
    return targets.take(_epsilon(states.dtype, states.device).expand(states.shape[:2]), 1)


@functools.lru_cache(maxsize=16)
def _epsilon(dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.tensor(torch.finfo(dtype).eps, dtype=dtype, device=device)


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
    """Return the distance between the states of each target with and without the values of each
    source.

    With `segments`, the values of all sources of a segment are zero at once. Values are zeroed in
    all heads, or with `per_head` in one head at a time.
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
        attended = weights if head is None else weights[:, head : head + 1]
        if form.mixes:  # a wanted target may change with one that is not wanted
            every = site.weights if head is None else site.weights[:, head : head + 1]
            attended = every.any(2, keepdim=True).expand(-1, -1, count, -1)
        if segments is not None:
            blocks = _segment_blocks(attended, real, segments, head, max(1, rows // count))
        elif targets.is_cut:
            blocks = _leading_blocks(attended, _last_sources(targets, site), head, rows)
        else:
            blocks = _linked_blocks(attended, real, head, max(1, rows // count))
        for block, linked in blocks:
            distances = form.distances(block, linked)
            scores[block.texts, number, block.targets, block.columns] = distances
    return scores


Blocks = Iterator[tuple[ZeroedBlock, Bool[Tensor, "text target column"]]]


def _linked_blocks(attended: Tensor, real: Tensor, head: int | None, size: int) -> Blocks:
    """Yield blocks of `size` sources, each with the range of targets that attend to these sources.

    The ranges of a text are read from the device all at once, because each read synchronises a GPU.
    """
    for text in range(len(attended)):
        linked = attended[text].any(0) & real[text]
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


def _leading_blocks(attended: Tensor, last: Sequence[int], head: int | None, rows: int) -> Blocks:
    """Yield blocks of all targets, with the sources that at least one target can see.

    No value is read from the device. Short texts are processed together, up to `rows` (target,
    source) pairs at once.
    """
    batch, _, count, _ = attended.shape
    step, texts_at_once = max(1, rows // count), max(1, rows // (count * max(last)))
    for first in range(0, batch, texts_at_once):
        texts = slice(first, min(first + texts_at_once, batch))
        end = max(last[texts])
        for start in range(0, end, step):
            part = slice(start, min(start + step, end))
            yield ZeroedBlock(texts, slice(0, count), part, head), attended[texts, ..., part].any(1)


def _segment_blocks(
    attended: Tensor, real: Tensor, segments: Segments, head: int | None, size: int
) -> Blocks:
    """Yield blocks of `size` segments, each with all targets of a text."""
    for text, positions in enumerate(segments):
        members_by_segment = [
            torch.tensor(members, device=attended.device) for members in positions
        ]
        linked = attended[text].any(0) & real[text]
        for start in range(0, len(members_by_segment), size):
            part = slice(start, min(start + size, len(members_by_segment)))
            links = torch.stack(
                [linked[:, members].any(1) for members in members_by_segment[part]], 1
            )
            block = ZeroedBlock(
                slice(text, text + 1), slice(0, len(linked)), part, head, members_by_segment
            )
            yield block, links[None]


def _last_sources(targets: Targets, site: Attention) -> list[int]:
    """Return, for each text, the number of sources up to the last one that any target can see."""
    counts, ends = list(targets.source_lengths), site.visibility.ends
    if ends is None:
        return counts
    ends = ends * (len(counts) // len(ends))  # one for all texts
    return [max(1, min(pair)) for pair in zip(counts, ends, strict=True)]


def _folding_is_faster(
    site: Attention, real: Bool[Tensor, "batch target source"], *, per_head: bool
) -> bool:
    """Return whether to apply the output projection to the values before forming (target, source)
    pairs.

    This is cheaper if there are many pairs.
    """
    if site.values.element_size() < 4 or site.projection is None:
        return False  # products in half precision are cheap
    d_model, heads = int(site.projected.shape[-1]), site.structure.heads
    at_once, pairs = (1, real.numel() * heads) if per_head else (heads, real.numel())
    return pairs * (d_model - at_once) >= 1.2 * d_model * (d_model + real.shape[0] * real.shape[2])
