"""ALTI-Logit: what each input token adds to one logit, layer by layer.

Ferrando et al. 2023, Explaining How Transformers Use Context to Build Predictions (ACL): the logit
updates of a layer belong to its tokens, which are mixtures of the input's. They are carried down
to the input by ALTI's maps of the layers below, V_l = D_l M_(l-1) ... M_0, so that each layer keeps
its sum. The feed-forward part is taken to keep every token to itself.

`variant="released"` has the maps of the authors' code: 1e-6 is added to every difference, and
tokens that a target cannot see count as zero vectors. The layers are walked from the top, so that
only rows are multiplied, and the last layer's map is not needed.

A target none of whose parts brings its output nearer has no ALTI row: what it would pass on belongs
to no token.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from mixlens.contracts import AttentionKind, Facts, Request, Scores, Spec, by_layer, is_released
from mixlens.measures.alti import contributions
from mixlens.measures.logit_update import with_initial
from mixlens.replay.logit_parts import LogitParts, not_a_sum

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording
    from mixlens.replay.explained_output import Explained
    from mixlens.structure.layer_structure import AttentionStructure, LayerStructure

SPEC = Spec(
    summary=(
        "contribution of each input token to one logit through the attention of each layer,"
        " propagated down by ALTI"
    ),
    citation=(
        "Ferrando et al. (2023), Explaining How Transformers Use Context to Build Predictions, ACL"
    ),
    use_when=(
        "for signed parts of one logit of a decoder, by layer and in total, at about the cost of"
        " alti"
    ),
    cost="as alti",
    facts=Facts(signed=True, reaches_input=True),
    splits="block",
    sites=(AttentionKind.SELF,),
    one_stack=True,
    explains_output=True,
    explains_by_default="logit",
    gives="rows",
    one_row="sum",
    blind_spots=(
        "splits the update of each attention block and propagates it down with ALTI's scores,"
        " which have no sign and leave out the MLPs. The MLPs' contributions to the logit belong"
        " to no token. A chain of intermediate tokens ranks above the original source"
    ),
    memory=lambda sizes: 4 * sizes.heads * sizes.targets * sizes.d_model + sizes.block,
    rounding=3e-5,
    half_precision=None,
)


def refusal(layer: LayerStructure, site: AttentionStructure) -> str | None:
    """Why a logit is not a sum over layers."""
    return not_a_sum(layer, site)


@torch.no_grad()
def score_model(
    recording: Recording,
    request: Request,
    output: Explained,
    *,
    initial: bool = False,
    variant: str = "paper",
) -> Scores:
    """`initial`: the embedding's own part is added to the explained token, in layer 0; `variant`:
    paper or released.
    """
    released = is_released(variant)
    parts = LogitParts.of("alti_logit", recording, request, output)
    every = replace(request, targets=None).chosen(recording)
    rows: dict[int, torch.Tensor] = {}
    rest: dict[int, torch.Tensor] = {}
    for index in reversed(range(max(request.layers) + 1)):
        site = parts.layers[index].site(request.kind)
        if rows:
            shares, _ = contributions(site, every, recording.memory_budget, released=released)
            carried = torch.stack(list(rows.values()), 1).to(shares.device) @ shares
            rows = dict(zip(rows, carried.unbind(1), strict=True))
        if index in request.layers:
            updates = parts.updates(index, site)
            rest[index] = parts.unattributed(index, updates)
            rows[index] = with_initial(parts, updates) if initial and index == 0 else updates
    return Scores(
        torch.stack([rows[index] for index in request.layers])[:, :, None],
        {"unattributed": by_layer([rest[index] for index in request.layers])},
        {"unattributed": ()},
        target_labels=output.names,
    )
