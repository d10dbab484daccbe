"""Effective attention: the part of the attention weights that can change the layer's output, A P.

Brunner et al. 2020, On Identifiability in Transformers
(https://openreview.net/forum?id=BJg1f6EFDB), eq. 9. P projects onto the column space of T = V W_O
(source x d_model). The removed component, `null_attention`, lies in T's left null space and never
reaches the output. Scores may be negative. They equal A if the number of tokens does not exceed the
rank of T. T does not include padding.

The paper uses one projector for a whole text. mixlens differs if a target cannot see every source
(causal masks, windows, packed texts). The projector of such a target is computed from the visible
rows of T, so that hidden tokens keep weight zero and the product with V stays the same (see
`kernels.prefixes`). The attention mask of the forward pass determines which sources are visible
(see `capture.attention_call`). `rank` and `null_dimension` (tokens minus rank) refer to all tokens
of the text, which in a causal model only the last target can see.

`constraint` addresses an open question in section 3.4 of the paper: "sum" removes only components
that also keep the sum of the weights (the left null space of [T, 1]); "simplex" returns the
shortest non-negative weights with the same sum and the same output.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mixlens.contracts import Facts, LayerScores, Spec, Targets
from mixlens.errors import InvalidInput
from mixlens.kernels.chunks import block_bytes
from mixlens.kernels.prefixes import visible_projection
from mixlens.kernels.projector import projector, uncertain_rows, value_columns, with_ones
from mixlens.kernels.simplex import shortest_rows
from mixlens.model.placement import sent
from mixlens.model.session import ModuleCache

if TYPE_CHECKING:
    from mixlens.recording.attention import Attention
    from mixlens.recording.layer import Layer
    from mixlens.structure.layer_structure import AttentionStructure, LayerStructure

_uncertain: ModuleCache[list[int]] = ModuleCache()  # of output projections, which no text changes

SPEC = Spec(
    summary="the attention weights without the component that cannot reach the layer's output",
    citation="Brunner et al. 2020, On Identifiability in Transformers, eq. 9",
    use_when=(
        "instead of raw attention for texts with more tokens than a head has dimensions; equal to"
        " it for shorter ones"
    ),
    cost="1 forward pass + d_head n^2 per head (causal: + d_head^3 n)",
    facts=Facts(signed=True),
    splits="projection",
    per_head=True,
    row_by_row=True,
    within_blocks=True,
    limitations=(
        "removes attention weights that have no effect on a head's output (zero values, null"
        " space). It misses that heads can cancel each other, and everything in the layer after the"
        " heads. It leaves out the residual stream. If a token attends only to the start token in"
        " some layer, its earlier content is lost"
    ),
    memory=lambda sizes: (
        3 * sizes.heads * sizes.targets * sizes.sources
        + 4 * sizes.sources * sizes.d_model
        + sizes.layers * sizes.targets * sizes.sources
        + sizes.block
    ),
)

CONSTRAINTS = ("none", "sum", "simplex")


def refusal(layer: LayerStructure, site: AttentionStructure) -> str | None:
    """Return why an attention has no single output map, or None if it has one.

    The null space of a head is defined only for a single output map.
    """
    if site.gated:
        return "its attention is gated, so each target has its own output map"
    return None


def score_layer(
    layer: Layer,
    attention: Attention,
    targets: Targets,
    *,
    per_head: bool = False,
    constraint: str = "none",
) -> LayerScores:
    """Return the effective attention. `constraint` is "none", "sum" or "simplex"."""
    if constraint not in CONSTRAINTS:
        raise InvalidInput(
            f"Unknown constraint {constraint!r}. Choose one of: {', '.join(CONSTRAINTS)}."
        )
    visible = visible_sources(attention, targets)
    projection = layer.hookable(attention.structure.output_projection)
    matrix = attention.output_weight
    uncertain = _uncertain.of(projection, matrix.dtype, partial(uncertain_rows, matrix))
    values = attention.values.repeat_interleave(len(matrix) // attention.values.shape[1], 1)
    columns = value_columns(values.to(matrix), matrix, visible.lengths, uncertain)
    limit = block_bytes(layer.memory_budget)
    effective, rank = _effective(attention, columns, targets, visible, constraint, limit)
    null = targets.take(attention.weights, 2) - effective
    dims: dict[str, tuple[str, ...]] = {"rank": ("head",), "null_dimension": ("head",)}
    dims["null_attention"] = ("head", "target", "source") if per_head else ("target", "source")
    return LayerScores(
        effective if per_head else effective.mean(1),
        {
            "null_attention": null if per_head else null.mean(1),
            "rank": rank,
            "null_dimension": visible.lengths[:, None] - rank,
        },
        dims,
        facts=Facts(
            signed=constraint != "simplex",
            # only then the weights keep their sum
            rows_sum_to_one=constraint != "none" and attention.structure.rows_sum_to_one,
        ),
    )


@dataclass(frozen=True)
class VisibleSources:
    """The sources that each recorded target of one attention can see, without padding."""

    lengths: Int[Tensor, " batch"]  # real sources
    visible: Bool[Tensor, "batch heads_or_one target source"]
    shared: bool  # whether all real targets see all real sources

    def of_head(self, head: int) -> Bool[Tensor, "batch target source"]:
        """Return the sources that the targets can see in one head."""
        return self.visible[:, min(head, self.visible.shape[1] - 1)]


def visible_sources(site: Attention, request_targets: Targets) -> VisibleSources:
    """Return which sources each recorded target of an attention can see.

    In a causal model each target has its own projector, so a target measured alone has the same
    scores as in a map of all targets.
    """
    (batch, _, targets, sources), device = site.weights.shape, site.weights.device
    lengths = sent(torch.tensor(request_targets.source_lengths), device)
    real = (torch.arange(sources, device=device) < lengths[:, None])[:, None, None]
    pairs, visible = (
        real,
        real if site.visibility.visible is None else site.visibility.visible & real,
    )
    if not request_targets.is_cut:
        places = torch.arange(targets, device=device).expand(batch, targets)
        pairs = request_targets.real_pairs(places, sources)[:, None]
    shared = not site.structure.causal and not bool((pairs & ~visible).any())
    return VisibleSources(lengths, visible.expand(-1, -1, targets, -1), shared)


def _effective(
    site: Attention,
    columns: Float[Tensor, "batch head source d_head"],
    request_targets: Targets,
    visible: VisibleSources,
    constraint: str,
    limit: int,
) -> tuple[Float[Tensor, "batch head target source"], Int[Tensor, "batch head"]]:
    """Return the effective attention of the requested targets, and the rank of T.

    If `constraint` adds a column of ones to T, this column does not count towards the rank.
    """
    batch, _, targets, _ = site.weights.shape
    weights, dtype = request_targets.take(site.weights, 2), site.weights.dtype
    positions = request_targets.at(batch, targets, weights.device)
    constrained = columns if constraint == "none" else with_ones(columns, visible.lengths)
    is_visible = request_targets.take(visible.visible, 2)
    if constraint == "simplex":
        effective = shortest_rows(weights, constrained, is_visible)
    elif not visible.shared:
        effective, rank = visible_projection(weights, constrained, positions, is_visible, limit)
        if constraint == "none":
            return effective, rank
    else:
        onto = projector(constrained, visible.lengths, dtype)
        effective = onto(weights)
        if constraint == "none":
            return effective, onto.rank
    return effective, projector(columns, visible.lengths, dtype).rank
