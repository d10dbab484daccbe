"""Value Zeroing: the distance between a token's new representation with and without the value
vector of another token.

Mohebbi, Zuidema, Chrupała, Alishahi, "Quantifying Context Mixing in Transformers", EACL 2023, eq.
10: C_ij = distance(e_i, e_i with v_j = 0 in every head); attention weights stay fixed, and the rest
of the layer is recomputed.

The distance is the cosine distance (the paper's choice), Euclidean, or one minus Spearman's
correlation of the channels. `normalised=True` first standardises every representation to mean zero
and variance one over its channels. The paper shows results for normalised representations (figure
A.1) without a formula, and the published code names the option without its code. With grouped heads
`per_head` scores every query head: its own part A^h f^h is removed, not the value it shares with
others. Scores are not normalised; the authors' code does that before rollout, like `normalised()`
here.

With `segments` all values of a segment are zero at once: distance(e_i, e_i without sum_j c_ij over
the tokens j of the segment). This is the joint effect of the segment, not the sum of the effects of
its tokens, and costs as much as one token for each segment.

With `sample` a span is estimated from some of its targets, drawn without replacement, and
`extras["standard_error"]` is the standard error of the mean. Every target costs the rest of the
layer for each source, so there is no shortcut to the exact mean.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.contracts import Facts, LayerScores, SpanRule, Spec, Targets
from mixlens.errors import InvalidInput
from mixlens.kernels.distances import DISTANCES, Distance
from mixlens.replay.zeroing import zeroing_distances

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
    samples=True,
    refused={
        "sum": "every value is zeroed in the layer of each target, and distances do not add up",
        "joint": "only the mean of the distances is available",
    },
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
    """Return the distances. `distance` is cosine, euclidean or spearman; `normalised` compares
    standardised representations; `segments` zeroes all values of a segment at once. `sample`
    targets of a span were drawn with `seed` before any layer is scored.
    """
    if sample is not None and targets.weights is None:
        raise InvalidInput(
            f"sample={sample!r} draws targets of a span. Pass span='mean' with the targets."
        )
    if distance not in DISTANCES:
        raise InvalidInput(f"Unknown distance {distance!r}. Choose one of: {', '.join(DISTANCES)}.")
    named = None if segments is None else targets.segments(segments)
    values = zeroing_distances(
        layer,
        targets,
        Distance(distance, normalised),
        per_head=per_head,
        segments=None if named is None else [list(text.values()) for text in named],
    )
    return LayerScores(
        values if per_head else values[:, 0],
        source_labels=None if named is None else [tuple(text) for text in named],
        scale=_rounding_scale(layer, targets, distance),
    )


def _rounding_scale(layer: Layer, targets: Targets, distance: str) -> Float[Tensor, "batch target"]:
    """Return the scale of rounding errors of a distance: the norm of the states, or for angles,
    which are squared, a unit of rounding.
    """
    if distance == "euclidean":
        return targets.take(layer.output.norm(dim=-1), 1)
    states = layer.input  # as wide and as many
    return targets.take(_epsilon(states.dtype, states.device).expand(states.shape[:2]), 1)


@functools.lru_cache(maxsize=16)
def _epsilon(dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.tensor(torch.finfo(dtype).eps, dtype=dtype, device=device)
