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

With `span="joint"` the score is the distance of the stacked states w_i e_i. With d_i the change of
e_i, sums over targets of w_i^2 |d_i|^2, w_i^2 e_i d_i and w_i^2 |e_i|^2 determine it.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.contracts import Facts, LayerScores, SpanRule, Spec, Targets
from mixlens.errors import InvalidInput
from mixlens.kernels.chunks import wide
from mixlens.kernels.distances import DISTANCES, Distance, standardise
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
    made = _measure_changes(layer, targets, Distance(distance, normalised), per_head, segments)
    return replace(made, scale=_rounding_scale(layer, targets, distance))


def _measure_changes(
    layer: Layer, targets: Targets, distance: Distance, per_head: bool, segments: Any
) -> LayerScores:
    named = None if segments is None else targets.segments(segments)
    values = zeroing_distances(
        layer,
        targets,
        distance,
        per_head=per_head,
        segments=None if named is None else [list(text.values()) for text in named],
    )
    return LayerScores(
        values if per_head else values[:, 0],
        source_labels=None if named is None else [tuple(text) for text in named],
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
    """Return the squared length of every change, its product with the state, and the squared length
    of the state. Products need a second run of the rest of the layer.
    """
    if distance not in ("cosine", "euclidean"):
        raise InvalidInput(
            f"distance={distance!r} has no span='joint'. Use span='mean', or the distance 'cosine'"
            " or 'euclidean'."
        )
    lengths = _measure_changes(
        layer, targets, Distance("euclidean", normalised), per_head, segments
    )
    states = wide(targets.take(layer.output, 1))
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
    """Return the distance of stacked states a and b = a + d from |d|^2, a d and |a|^2:
    1 - cos = (|d|^2 - (|b| - |a|)^2) / (2 |a| |b|), which keeps its digits for small changes.
    """
    d, sizes = wide(squares.values), squares.extras["sizes"]
    dtype = squares.values.dtype
    if distance == "euclidean":
        values = d.sqrt().to(dtype)
        return replace(squares, values=values, extras={}, extra_dims={}, scale=sizes.sqrt())
    a = wide(sizes).view(len(sizes), *[1] * (d.dim() - 1))
    gain = 2 * wide(squares.extras["products"]) + d
    length, other = a.sqrt(), (a + gain).clamp_min(0).sqrt()
    tiny = torch.finfo(dtype).tiny
    rest = d - (gain / (length + other).clamp_min(tiny)).square()
    values = rest.clamp_min(0) / (2 * length * other).clamp_min(tiny)
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
