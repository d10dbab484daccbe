"""Value Zeroing: how far a token's new representation moves when the value vector of another token
is set to zero.

Mohebbi, Zuidema, Chrupała, Alishahi, "Quantifying Context Mixing in Transformers", EACL 2023, eq.
10: C_ij = distance(e_i, e_i with v_j = 0 in every head); attention weights stay as they are, the
whole layer behind them is recomputed.

The distance is the cosine distance (the paper's choice), Euclidean, or one minus Spearman's
correlation of the channels. `normalised=True` first gives every representation mean zero and
variance one over its channels. The paper shows results for normalised representations (figure A.1)
without a formula, and the published code names the option but leaves out its code. With grouped
heads `per_head` gives every query head: its own share A^h f^h leaves the output, not the value it
shares with others. Scores are not divided by their row sum; the authors' code does that before
rollout, as `normalised()` does here.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.contracts import Facts, LayerScores, SpanRule, Spec, Targets
from mixlens.errors import InvalidInput
from mixlens.kernels.chunks import rows_at_once
from mixlens.kernels.distances import DISTANCES, prepared_for, separation, standardised
from mixlens.recording.upcast import bytes_of_a_row
from mixlens.replay.layer_rest import LayerRest
from mixlens.replay.zeroed_sources import nothing_zeroed
from mixlens.replay.zeroing import changed, fastest_rest
from mixlens.replay.zeroing_delta_proof import (
    block_distances,
    map_changes,
    row_changes,
    row_distances,
)

if TYPE_CHECKING:
    from mixlens.recording.attention import Attention
    from mixlens.recording.layer import Layer

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
    blind_spots=(
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

SPAN = SpanRule(
    refused={
        "sum": "every value is zeroed in the layer of each target, and distances do not add up",
        "joint": "only the mean of the distances is available",
    }
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
) -> LayerScores:
    """`distance`: cosine, euclidean or spearman; `normalised`: compare representations of mean zero
    and variance one.
    """
    if distance not in DISTANCES:
        raise InvalidInput(
            f"there is no distance {distance!r}; choose one of: {', '.join(DISTANCES)}"
        )
    values = _distances(layer, targets, per_head, distance, normalised)
    scale = _rounding_scale(layer, targets, distance)
    return LayerScores(values if per_head else values[:, 0], scale=scale)


def _rounding_scale(layer: Layer, targets: Targets, distance: str) -> Float[Tensor, "batch target"]:
    """What the rounding of a distance is relative to: the length of the states, or for angles,
    which are squared, a unit of rounding.
    """
    if distance == "euclidean":
        return targets.take(layer.output.norm(dim=-1), 1)
    states = layer.input  # as wide and as many
    return targets.take(_epsilon(states.dtype, states.device).expand(states.shape[:2]), 1)


@functools.lru_cache(maxsize=16)
def _epsilon(dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.tensor(torch.finfo(dtype).eps, dtype=dtype, device=device)


def _distances(
    layer: Layer, targets: Targets, per_head: bool, distance: str, normalised: bool
) -> Float[Tensor, "batch heads_or_one target source"]:
    states = layer.native_input if targets.is_cut else layer.input
    row_bytes = bytes_of_a_row(layer.submodule(""), int(states.shape[-1]), states.dtype)
    rows = rows_at_once(row_bytes, layer.memory_budget, states.device)
    layer_rest = LayerRest(layer, targets.kind, rows=rows)
    if targets.is_cut and not normalised:
        changes = row_changes(layer_rest, distance=distance)
        if changes is not None:
            last = _last_sources(targets, layer_rest.site)
            return row_distances(changes, last, per_head=per_head, rows=rows)
    weights = targets.take(layer_rest.site.weights, 2)
    batch, _, count, sources = weights.shape
    positions = targets.at(batch, count, weights.device)
    real = targets.real_pairs(positions, sources)
    places = targets.places(batch, count, weights.device)
    if weights.device.type == "cuda" and not (normalised or targets.is_cut):
        changes = map_changes(layer_rest, real, places, distance=distance, per_head=per_head)
        if changes is not None:
            return block_distances(changes, weights, real, per_head=per_head, rows=rows)
    prepare = prepared_for(distance)

    def ready(outputs: Float[Tensor, "row d_model"]) -> Float[Tensor, "row d_model"]:
        return prepare(standardised(outputs) if normalised else outputs)

    rest = fastest_rest(layer_rest, weights, real, places, per_head=per_head)
    unedited = torch.stack(
        [ready(rest(nothing_zeroed(layer_rest.site, text, count))) for text in range(batch)]
    )

    def compare(text: int, target: Tensor, outputs: Tensor) -> Tensor:
        return separation(distance, ready(outputs), unedited[text, target])

    return changed(rest, layer_rest.site, weights, real, compare, per_head=per_head, rows=rows)


def _last_sources(targets: Targets, site: Attention) -> list[int]:
    """For each text how many sources any of its targets can see."""
    counts, ends = list(targets.source_lengths), site.visibility.ends
    if ends is None:
        return counts
    ends = ends * (len(counts) // len(ends))  # one for all texts
    return [max(1, min(pair)) for pair in zip(counts, ends, strict=True)]
