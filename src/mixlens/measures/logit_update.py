"""Logit updates: the contribution of each token to one logit through the attention of each layer.

Ferrando et al. 2023, Explaining How Transformers Use Context to Build Predictions (ACL), their
"Logit" method: D_l,j = sum_h A_h,ij f_h,j . g. Here g is the direction of the explained logit,
pulled back through the final norm with its sigma fixed. Each token of a layer is identified with
the input token at the same position. `extras["unattributed"]` is the remainder that is not assigned
to any token (see `mixlens.replay.logit_parts`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mixlens.contracts import AttentionKind, Facts, Request, Scores, Spec, by_layer, is_released
from mixlens.replay.logit_parts import LogitParts, StreamCheck, not_a_sum

if TYPE_CHECKING:
    from mixlens.contracts import Targets
    from mixlens.recording.layer import Layer
    from mixlens.recording.recording import Recording
    from mixlens.replay.explained_output import Explained

SPEC = Spec(
    summary="contribution of each token to one logit through the attention of each layer",
    citation=(
        "Ferrando et al. (2023), Explaining How Transformers Use Context to Build Predictions, ACL"
    ),
    use_when=(
        "for signed updates of one logit, layer by layer, at the cost of the forward pass; takes"
        " the token of a layer for the input token"
    ),
    cost="1 forward pass, and next to nothing",
    facts=Facts(signed=True),
    splits="block",
    follows_output=True,
    sites=(AttentionKind.SELF,),
    one_stack=True,
    explains_output=True,
    explains_by_default="logit",
    gives="rows",
    one_row="sum",
    limitations=(
        "sees the direct contributions of attention to the explained token. It misses tokens that"
        " reach it through an intermediate token, and all contributions of MLPs"
    ),
    memory=lambda sizes: 2 * sizes.heads * sizes.targets * sizes.d_model,
    rounding=3e-5,
    half_precision=None,
)

refusal = not_a_sum


@torch.no_grad()
def score_model(
    recording: Recording,
    request: Request,
    output: Explained,
    *,
    initial: bool = False,
    variant: str = "paper",
) -> Scores:
    """Return the updates.

    `initial` adds the contribution of the explained token's own embedding to its score in layer 0.
    `variant` is "paper" or "released", which do not differ for this measure.
    """
    is_released(variant)  # only for its check
    parts = LogitParts.of("logit_update", recording, request, output)
    check, by_layer_position, remainders = (
        StreamCheck("logit_update"),
        dict[int, Tensor](),
        dict[int, Tensor](),
    )

    def visit(position: int, layer: Layer, targets: Targets) -> None:
        with layer.hold_attention():
            check.add(layer, targets)
            if position not in request.layers:
                return
            updates = parts.updates(layer, layer.site(request.kind), targets)
            remainders[position] = parts.sum_unattributed(layer, updates, targets)
            if initial and position == 0:
                updates = with_initial(parts, updates, layer, targets)
            by_layer_position[position] = updates

    every = tuple(range(len(recording.structure.site(request.site).numbers)))
    recording.visit(replace(request, layers=every, targets=parts.places), visit)
    return Scores(
        by_layer([by_layer_position[position] for position in request.layers])[:, :, None],
        {"unattributed": by_layer([remainders[position] for position in request.layers])},
        {"unattributed": ()},
        target_labels=output.names,
    )


def with_initial(parts: LogitParts, scores: Tensor, first: Layer, targets: Targets) -> Tensor:
    """Return scores [batch, source] plus the contribution of the explained tokens' own
    embeddings.
    """
    places = torch.tensor(parts.places, device=scores.device)
    return scores.scatter_add(1, places, parts.initial(first, targets).to(scores))
