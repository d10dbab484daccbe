"""Blank-out: how much one output of the model changes when a token is replaced.

Two papers use erasure (Li et al. 2016) as a baseline. In Ferrando et al. 2022, each token is
replaced by [MASK], and the score is the absolute change of the probability over the whole
vocabulary (the defaults). In Mohebbi et al. 2023, each token is replaced by [UNK], and the score is
the signed change of the probability when only the target and the foil are possible
(`replacement="unk", signed=True` with `word` and `foil`). A score is f(text) - f(text with token j
replaced): positive if the token supports the explained output (see
`mixlens.replay.explained_output`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.contracts import AttentionKind, Facts, Request, Scores, Spec
from mixlens.errors import InvalidInput
from mixlens.kernels.chunks import split_chunks
from mixlens.replay.attribution import copies_at_once, moving_counts
from mixlens.replay.explained_output import Explained
from mixlens.replay.intervention import ModelFrom, model_output, token_input
from mixlens.text.vocabulary import special_id

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording

SPEC = Spec(
    summary=(
        "change of one output of the model when each token is replaced by [MASK], by [UNK] or by a"
        " zero embedding"
    ),
    citation='Li et al. (2016), "Understanding Neural Networks through Representation Erasure"',
    use_when=(
        "for a direct, model-agnostic test of which tokens one prediction needs; misses tokens"
        " that can replace each other"
    ),
    cost="n forward passes",
    facts=Facts(),
    sites=(AttentionKind.SELF,),
    explains_output=True,
    explains_embedding=True,
    reads="output",
    gives="row",
    limitations=(
        "is right if a single token decides, and wrong if another token can replace the one that"
        " is removed. The replacement is a word too, so a model that counts words or looks them up"
        " reacts to the replacement itself"
    ),
    memory=lambda sizes: sizes.passing + sizes.chunk,
    least={"replacement": "zero"},
    half_precision=None,
    empty_below=100,
)

REPLACEMENTS = ("mask", "unk", "pad", "zero")


@torch.no_grad()
def score_model(
    recording: Recording,
    request: Request,
    output: Explained,
    *,
    replacement: str | int | None = None,
    signed: bool = False,
    moves: str = "prompt",
) -> Scores:
    """Return the change of the output for each replaced token.

    `replacement` is "mask", "unk", "pad", "zero" or a token id. If an answer is explained, `moves`
    ("prompt" or "all") selects the tokens to replace.
    """
    if request.layers_named and request.layers != (0,):
        raise InvalidInput(
            "blank_out has one set of scores for the whole model and no layers to choose "
            "from. Drop `layers`."
        )
    token = replacement_id(recording, replacement)
    hidden = ModelFrom(recording, request.site).hidden(0)
    moving = moving_counts(recording, request, output, moves)
    size = copies_at_once(recording, request, output)
    values = torch.zeros(
        hidden.shape[:2],
        device=hidden.device,
        dtype=torch.promote_types(hidden.dtype, torch.float32),
    )
    sizes = torch.zeros_like(values[:, 0])
    narrow = output.only_what_is_read(recording.model)
    for text, count in enumerate(moving):
        before = output(model_output(recording, torch.tensor([text]), narrow), torch.tensor([text]))
        sizes[text] = before.abs().max()
        for places in split_chunks(torch.arange(count, device=hidden.device), size):
            after = _run_blanked(recording, request, output, text, places, token)
            values[text, places] = (before - after).to(values)
            sizes[text] = torch.maximum(sizes[text], after.abs().max().to(sizes))
    values = values if signed else values.abs()
    return Scores(
        values[None, :, None],
        layers=(0,),
        target_labels=output.names,
        facts=Facts(signed=signed),
        scale=sizes[None, :, None],
    )


def _run_blanked(
    recording: Recording,
    request: Request,
    output: Explained,
    text: int,
    places: Tensor,
    token: int | None,
) -> Float[Tensor, " place"]:
    """Return the explained output for each position, with only the token at this position replaced.

    If `token` is None, the embedding is set to zero instead.
    """
    texts = torch.full_like(places, text)
    order = torch.arange(len(places), device=places.device)
    narrow = output.only_what_is_read(recording.model)
    if token is None:
        model = ModelFrom(recording, request.site)
        hidden = model.hidden(0)[texts].clone()
        hidden[order, places] = 0
        return output(model(0, hidden, texts, narrow), texts)
    name, ids = token_input(recording, request.site)
    replaced = ids[texts].clone()
    replaced[order, places] = token
    return output(model_output(recording, texts, {name: replaced, **narrow}), texts)


def replacement_id(recording: Recording, replacement: str | int | None) -> int | None:
    """Return the id of the replacement token, or None for a zero embedding.

    The replacement is one of `REPLACEMENTS` or a token id.
    """
    if isinstance(replacement, int) or (isinstance(replacement, str) and replacement.isdigit()):
        return int(replacement)
    if replacement is None:
        for name in ("mask", "unk"):
            number = special_id(recording, name)
            if number is not None:
                return number
        raise InvalidInput(
            "The model has no tokenizer with a mask or unknown token. Pass replacement='zero', or a"
            " token id. To find the passages behind an answer, use leave_one_out instead."
        )
    if replacement not in REPLACEMENTS:
        raise InvalidInput(
            f"Unknown replacement {replacement!r}. Choose one of: {', '.join(REPLACEMENTS)}, or "
            "pass a token id."
        )
    if replacement == "zero":
        return None
    number = special_id(recording, replacement)
    if number is None:
        raise InvalidInput(
            f"The tokenizer and the config have no token for replacement={replacement!r}. Pass "
            "replacement='zero', or a token id."
        )
    return number
