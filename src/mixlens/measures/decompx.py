"""DecompX: the norm of the part of each hidden state that comes from each input token.

Modarressi et al. 2023, DecompX: Explaining Transformers Decisions by Propagating Token
Decomposition (https://aclanthology.org/2023.acl-long.149), equations 3-13. Vectors are propagated
from layer to layer, so the map of each layer shows the contributions of the input tokens. With
`local=True` each layer is decomposed separately. `mixlens.replay.vector_parts` describes the
computation, the differences from the released code (`variant="released"`), and extensions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mixlens.contracts import AttentionKind, Facts, Request, Scores, Spec, is_released
from mixlens.errors import InvalidInput
from mixlens.kernels.shares import BIASES
from mixlens.replay.mlp_scopes import no_mlp
from mixlens.replay.vector_parts import (
    PartRules,
    follow_parts,
    own_parts,
    require_followed,
    through,
)

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording

SPEC = Spec(
    summary=(
        "the norm of the part of each hidden state that comes from each input token, propagated"
        " through attention, norms and MLPs"
    ),
    citation=(
        "Modarressi et al. (2023), DecompX: Explaining Transformers Decisions by Propagating Token"
        " Decomposition, ACL, eq. 3-13"
    ),
    use_when=(
        "to follow input tokens through the whole stack as vectors that add up, without"
        " aggregating maps"
    ),
    cost="about 0.8 n forward passes",
    facts=Facts(residual_included=True, reaches_input=True),
    splits="block",
    sites=(AttentionKind.SELF,),
    limitations=(
        "propagates vectors with attention weights, norms and activation slopes held fixed, so it"
        " misses tokens that change these. Two vectors that cancel look important. A vector that"
        " was added to the state counts, even if the output does not read it"
    ),
    memory=lambda sizes: (
        sizes.heads * sizes.targets * sizes.d_model
        + 5 * sizes.targets**2 * sizes.d_model
        + 2 * sizes.matrix
        + sizes.chunk
    ),
)

refusal = no_mlp
require_layer = require_followed


@torch.no_grad()
def score_model(
    recording: Recording,
    request: Request,
    *,
    bias: str = "absdot",
    variant: str = "paper",
    local: bool = False,
    feed_forward: bool = True,
) -> Scores:
    """Return the norm of each input token's contribution.

    `bias` is "absdot", "abssim", "norm", "equal", "cls", "none" or "column"; `variant` is "paper"
    or "released". `local` decomposes each layer separately, and `feed_forward=False` omits the MLP.
    """
    rules = chosen_rules(bias, variant, feed_forward)
    if not local:
        stack = recording.structure.stack_of(request.site)
        stack.require_every_layer("decompx", max(request.layers) + 1)
    like = recording.layers(request.site)[0].input
    batch, count = like.shape[:2]
    values = like.new_zeros(len(request.layers), batch, count, count)
    column = like.new_zeros(len(request.layers), batch, count)
    lengths = recording.lengths[recording.structure.stack_of(request.site).name]
    for text, length in enumerate(lengths):
        for place, places, norms in _text_norms(recording, request, text, length, rules, local):
            device = values.device  # layers may be on several devices
            places, norms = places.to(device), norms.to(device)
            values[place, text, places, :length] = norms[:, :length]
            if bias == "column":
                column[place, text, places] = norms[:, length]
    targets = request.chosen(recording)
    target_norms = torch.stack([targets.take(layer, 1) for layer in values])
    facts = Facts(residual_included=True, reaches_input=not local)
    if bias != "column":
        return Scores(target_norms, facts=facts)
    extra = torch.stack([targets.take(layer, 1) for layer in column])
    return Scores(target_norms, {"bias": extra}, {"bias": ("target",)}, facts=facts)


def chosen_rules(bias: str, variant: str, feed_forward: bool) -> PartRules:
    """Return the propagation rules for these options."""
    if bias not in BIASES:
        raise InvalidInput(f"Unknown bias {bias!r}. Choose one of: {', '.join(BIASES)}.")
    return PartRules(bias, is_released(variant), feed_forward)


def _text_norms(
    recording: Recording, request: Request, text: int, length: int, rules: PartRules, local: bool
) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Yield the index of each requested layer, its targets, and the norms [target, source]."""
    layers, budget = recording.layers(request.site), recording.memory_budget
    targets = None if request.targets is None else request.targets[text]
    if local:
        for place, number in enumerate(request.layers):
            token_parts = own_parts(
                layers[number].input[text, :length], column=rules.bias == "column"
            )
            places = torch.tensor(
                range(length) if targets is None else targets, device=token_parts.device
            )
            parts = through(layers[number], token_parts, places, text, rules, budget, first=True)
            yield place, places, torch.linalg.vector_norm(parts, dim=-1)
        return
    below = layers[: max(request.layers) + 1]
    for number, (places, parts) in enumerate(
        follow_parts(below, text, length, rules, budget, targets)
    ):
        for place, layer_number in enumerate(request.layers):
            if layer_number == number:
                yield place, places, torch.linalg.vector_norm(parts, dim=-1)
