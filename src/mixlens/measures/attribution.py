"""What the gradient measures share: one explained output, the layers at which it is explained, one
number per token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mixlens.contracts import Facts, Request, Scores
from mixlens.errors import InvalidInput, UnsupportedModel
from mixlens.explained import Explained, special_id
from mixlens.kernels.chunks import rows_at_once
from mixlens.kernels.gradients import Hidden, Value
from mixlens.replay.intervention import ModelFrom, layer_input, token_input

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording

Attribute = Callable[[Value, int, Hidden], Hidden]
"""The attribution for a layer's hidden states, one copy per text of the batch."""

REDUCTIONS = ("sum", "l1", "l2")


def attributed(
    recording: Recording, request: Request, output: Explained, attribute: Attribute, reduction: str
) -> Scores:
    """Attributions at the input of the named layers (of the first, where none is named), one number
    per token.
    """
    if reduction not in REDUCTIONS:
        raise InvalidInput(
            f"there is no reduction {reduction!r}; choose one of: {', '.join(REDUCTIONS)}"
        )
    positions = request.layers if request.layers_named else (0,)
    stack = recording.layers(request.site)
    numbers = [stack[position].structure.number for position in positions]
    if not request.layers_named and numbers != [0]:
        raise UnsupportedModel(
            f"the first layer that is measured has the number {numbers[0]}, and tokens have mixed"
            f" before it: name the layer whose input is meant, layers=[{numbers[0]}]"
        )
    layers = [stack[position].index for position in positions]
    model = ModelFrom(recording, request.site)
    found = []
    for layer in layers:

        def value(
            hidden: Hidden, rows: Int[Tensor, " copies"], layer: int = layer
        ) -> Float[Tensor, " copies"]:
            return output(model(layer, hidden, rows), rows)

        parts = attribute(value, layer, model.hidden(layer))
        parts = parts.float() if parts.element_size() < 4 else parts
        found.append(
            parts.sum(-1)
            if reduction == "sum"
            else parts.norm(p=1 if reduction == "l1" else 2, dim=-1)
        )
    return Scores(
        torch.stack(found)[:, :, None],
        layers=numbers,
        target_labels=output.names,
        facts=Facts(signed=reduction == "sum"),
    )


def copies_at_once(recording: Recording, request: Request) -> int:
    """How many copies of a text fit while the whole graph of a forward pass is kept."""
    layers = recording.layers(request.site)
    tokens, d_model = layers[0].input.shape[1:]
    widest = max(
        (max(p.shape) for p in layers[0].module.parameters() if p.dim() > 1), default=d_model
    )
    heads = layers[0].structure.sites[0].heads
    return rows_at_once(
        4 * len(layers) * tokens * (12 * d_model + 3 * widest + 3 * heads * tokens),
        recording.memory_budget,
    )


# ---------------------------------------------------------------------------------------- baselines


def baseline(recording: Recording, request: Request, layer: int, kind: str, like: Hidden) -> Hidden:
    """Hidden states that stand for the absence of the text: zeros, or those of a text of "pad" or
    "mask" tokens.
    """
    if kind == "zero":
        return torch.zeros_like(like)
    if kind not in ("pad", "mask"):
        raise InvalidInput(f"there is no baseline {kind!r}; choose zero, pad or mask")
    token = special_id(recording, kind)
    if token is None:
        raise InvalidInput(f"no tokenizer or config names a {kind} token: use baseline='zero'")
    name, ids = token_input(recording, request.site)
    replaced = ids.clone()
    for row in range(recording.batch):
        tokens = recording.target_tokens(request.site, row)
        special = tokens.special or (False,) * len(tokens)
        words = [i for i in range(len(tokens)) if not special[i]]
        replaced[row, words] = token
    stack = recording.structure.stack_of(request.site)
    return layer_input(recording, stack.path, layer, {name: replaced})
