"""Raw attention: the weight A_ij that target i gives to source j, after softmax, masks, soft-caps
and sinks.

The layer's map is the mean over heads, as in attention rollout (Abnar & Zuidema 2020,
https://aclanthology.org/2020.acl-main.385). If a model has attention sinks (a column that is
dropped after the softmax), rows sum to less than one and are left so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mixlens.contracts import Facts, Request, Scores, Spec, by_layer
from mixlens.recording.placement import sent

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording

SPEC = Spec(
    summary="how much each token attends to each other token: the raw attention weights",
    citation=(
        "Abnar & Zuidema 2020, Quantifying Attention Flow in Transformers, eq. 1 (rollout); Vaswani"
        " et al. 2017 (weights)"
    ),
    use_when=(
        "as the baseline; it ignores the value vectors, the residual stream and everything after"
        " them"
    ),
    cost="1 forward pass",
    facts=Facts(rows_sum_to_one=True),
    per_head=True,
    rollout_residual=0.5,
    row_by_row=True,
    within_blocks=True,
    blind_spots=(
        "shows where a head looks, not what it brings. Half of the identity gives a go-between the"
        " same share as the source. After several hops the go-betweens rank above it"
    ),
    memory=lambda sizes: sizes.targets**2,
)


def scores(recording: Recording, request: Request) -> Scores:
    """The weights of each head, or their mean."""
    layers, missing = [], []
    for _, site in request.sites(recording):
        missing.append(missing_share(site.weights))
        weights = request.take(site.weights, 2)
        layers.append(weights if request.per_head else weights.mean(1))
    whole = rows_are_whole(recording, request, by_layer(missing))
    return Scores(by_layer(layers, copied=request.per_head), rows_whole=whole)


def missing_share(
    weights: Float[Tensor, "batch head target source"],
) -> Float[Tensor, "batch target"]:
    """How far the weights of any head are from a sum of one."""
    return (1 - weights.sum(-1)).abs().amax(1)


def rows_are_whole(
    recording: Recording, request: Request, missing: Float[Tensor, "layer batch target"]
) -> Bool[Tensor, " layer"]:
    """Is nothing missing in the rows of real tokens? There is if a sink takes a part.

    Half-precision weights are rounded one by one.
    """
    half = next(recording.model.parameters()).dtype in (torch.float16, torch.bfloat16)
    lengths = recording.lengths[recording.structure.stack_of(request.site).name]
    ends = sent(torch.tensor(lengths), missing.device)[:, None]
    real = torch.arange(missing.shape[2], device=missing.device) < ends
    return torch.where(real, missing, 0.0).flatten(1).amax(1) <= (2e-2 if half else 1e-4)
