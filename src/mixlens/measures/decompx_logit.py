"""DecompX for one logit: each input token's signed contribution to the model's output.

Modarressi et al. 2023, DecompX: Explaining Transformers Decisions by Propagating Token
Decomposition, equations 14-15: the vectors of `decompx` at the token that the output is read from
pass through the head, whose activations are chords too. Parts add up to the logit if biases are
shared or kept in a column. In the last product a bias is shared by each source's part of *all*
logits, as in the authors' code, which needs the table of sources and outputs. Linear rules need no
table, but one backward pass (`mixlens.replay.frozen_parts`).

Beyond the authors' classifiers, it supports masked and causal language models, at a position.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mixlens.contracts import AttentionKind, Facts, Request, Scores, Spec
from mixlens.errors import InvalidInput
from mixlens.measures.decompx import chosen_rules
from mixlens.replay.explained_output import Explained, logits_of
from mixlens.replay.frozen_parts import LINEAR, Terms, logit_parts
from mixlens.replay.head_chain import head_chain
from mixlens.replay.mlp_scopes import no_mlp
from mixlens.replay.vector_parts import PartRules, carried, require_followed

if TYPE_CHECKING:
    from mixlens.recording.layer import Layer
    from mixlens.recording.recording import Recording
    from mixlens.replay.head_steps import Head
    from mixlens.structure.layer_structure import AttentionStructure, LayerStructure

SPEC = Spec(
    summary="each input token's signed part of one logit, propagated as vectors through the model",
    citation=(
        "Modarressi et al. (2023), DecompX: Explaining Transformers Decisions by Propagating Token"
        " Decomposition, ACL, eq. 14-15"
    ),
    use_when="for signed parts of one logit that add up to it, without a baseline text",
    cost="about 0.8 n forward passes; 4 if bias is none, equal, cls or column",
    facts=Facts(signed=True),
    splits="block",
    sites=(AttentionKind.SELF,),
    one_stack=True,
    explains_output=True,
    explains_by_default="logit",
    gives="row",
    blind_spots=(
        "propagates vectors with attention weights, norms and activation slopes held fixed, so a"
        " token that only changes the attention weights gets a score of zero"
    ),
    memory=lambda sizes: (
        sizes.heads * sizes.targets * sizes.d_model
        + 2 * sizes.matrix
        + sizes.chunk
        + (
            sizes.layers
            * sizes.targets
            * (12 * sizes.d_model + 3 * sizes.d_ff + 3 * sizes.heads * sizes.targets)
            if sizes.options["bias"] in ("none", "column", "cls", "equal")
            else 5 * sizes.targets**2 * sizes.d_model
        )
    ),
    rounding=3e-5,
    half_precision=None,
)


def refusal(layer: LayerStructure, site: AttentionStructure) -> str | None:
    """Return why vectors cannot pass through such a layer."""
    return no_mlp(layer, site)


def require_layer(layer: Layer) -> None:
    """Raise unless vectors can pass through its values and its MLP."""
    require_followed(layer)


@torch.no_grad()
def score_model(
    recording: Recording,
    request: Request,
    output: Explained,
    *,
    bias: str = "absdot",
    variant: str = "paper",
    feed_forward: bool = True,
) -> Scores:
    """Return the contributions. `bias` is absdot, abssim, norm, equal, cls, none or column;
    `variant` is paper or released; `feed_forward=False` omits the MLP.
    """
    rules = chosen_rules(bias, variant, feed_forward)
    layers = recording.layers(request.site)
    if output.of != "logit":
        raise InvalidInput(
            f"A {output.of.replace('_', '-')} is not a sum of parts. Pass of='logit' to "
            "decompx_logit."
        )
    if request.layers_named and request.layers != (len(layers) - 1,):
        raise InvalidInput("decompx_logit uses all layers. Drop layers.")
    recording.structure.stacks[0].require_every_layer("decompx_logit")
    lengths = recording.lengths[recording.structure.stack_of(request.site).name]
    logits = logits_of(recording.output)
    head = head_chain(recording, logits, output.places_read, lengths)
    values = layers[0].input.new_zeros(recording.batch, layers[0].input.shape[1])
    column = values.new_zeros(recording.batch)
    for text, (length, *terms) in enumerate(zip(lengths, *output.terms, strict=True)):
        own = terms[0], terms[1]
        made, rest = _parts(layers, text, length, head, own, rules, recording.memory_budget)
        values[text, :length], column[text] = made, rest
    extras = {"bias": column[None]} if bias == "column" else {}
    return Scores(
        values[None, :, None],
        extras,
        dict.fromkeys(extras, ()),
        layers=(len(layers) - 1,),
        target_labels=output.names,
    )


def _parts(
    layers: Sequence[Layer],
    text: int,
    length: int,
    head: Head,
    terms: Terms,
    rules: PartRules,
    budget: int,
) -> tuple[Tensor, Tensor]:
    """Return each token's contribution to a weighted sum of logits, and that of the bias column."""
    if rules.bias in LINEAR:
        return logit_parts(layers, text, length, head, terms, rules)
    places = head.places[text]
    ((targets, parts),) = deque(carried(layers, text, length, rules, budget, places), maxlen=1)
    order, made = targets.tolist(), parts.new_zeros(parts.shape[1])
    for place, outputs, weights in zip(places, *terms, strict=True):
        state = layers[-1].output[text, place]
        split = head.logit_parts(parts[order.index(place)].clone(), state, rules)
        made += split[:, outputs.to(split.device)] @ weights.to(split)
    return made, made.new_zeros(())
