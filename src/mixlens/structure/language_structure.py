"""Infer the structure of a multimodal language model from its text tokens alone.

A prompt with an image cannot be truncated, because the model expects a token for each patch. The
text tokens alone are a valid input and pass through every layer of the language model. The image
and audio towers are not analysed. Scores are still verified on the full input.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn

from mixlens.capture.layer_calls import Inputs
from mixlens.errors import UnsupportedModel
from mixlens.structure.model_discovery import model_structure
from mixlens.structure.model_structure import ModelStructure
from mixlens.text.input_checks import is_plain_text
from mixlens.text.media_spans import media_tokens


def words_alone(model: nn.Module, inputs: Inputs) -> dict[str, Any] | None:
    """Return the token ids of the first text without the tokens of images, videos and audio.

    Return None if the model has no such tokens. If no token remains, a single text token is used
    instead.
    """
    ids, media = inputs.get("input_ids"), media_tokens(model.config)
    if is_plain_text(inputs) or not media or not isinstance(ids, Tensor) or ids.dim() != 2:
        return None
    is_word = ~torch.isin(ids[0], torch.tensor(sorted(media), device=ids.device))
    mask = inputs.get("attention_mask")
    if isinstance(mask, Tensor) and mask.shape == ids.shape:
        is_word &= mask[0].bool()
    words = ids[0][is_word][None]
    if not words.shape[1]:
        words = ids.new_tensor([[next(token for token in count(1) if token not in media)]])
    tensors = {"input_ids": words}
    if "attention_mask" in inputs:
        tensors["attention_mask"] = torch.ones_like(words)
    return tensors


def language_structure(
    model: nn.Module, site: str | None, inputs: Inputs
) -> tuple[ModelStructure, Inputs] | None:
    """Return the structure of the language model, and the text tokens from which it was inferred.

    Return None if the structure cannot be inferred from these tokens, or if `site` belongs to
    another tower. The name of the language model is taken from its path, as in the structure of the
    whole model.
    """
    words = words_alone(model, inputs)
    if words is None:
        return None
    try:
        language_model = model_structure(model, words)
    except UnsupportedModel:
        return None
    if language_model.whole or len(language_model.sites) != 1:
        return None
    ((old, attention),) = language_model.sites.items()
    if not attention.stack.layers[0].sites[0].causal:
        return None
    names = attention.stack.path.split(".")[:-1]
    name = site or (names[-1] if names else old)
    if name not in (*names, old):
        return None
    stack = replace(attention.stack, name=name)
    sites = {name: replace(attention, name=name, stack=stack)}
    calls = tuple((stack, number) for _, number in language_model.calls)
    return replace(language_model, stacks=(stack,), calls=calls, sites=sites), words
