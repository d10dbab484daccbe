"""Create dummy inputs for a model if the user passes none."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from mixlens.text.input_checks import main_inputs, takes_decoder_ids, vocabulary_size

_TOKENS = 12
_DEFAULT_TARGET = "Les clefs de la vieille armoire sont sur la table."
_DEFAULT_TEXT = (
    "The keys to the old cabinet near the door are on the kitchen table, and nobody has touched"
    " them since."
)


def default_input(model: nn.Module, tokenizer: Any) -> Any:
    """Return the default input for verifying a model: a sentence, or dummy tensors."""
    takes_text = main_inputs(model)[0] == "input_ids"
    if tokenizer is None or not takes_text or hasattr(model.config, "vision_config"):
        return make_dummy_inputs(model)
    return (_DEFAULT_TEXT, _DEFAULT_TARGET) if takes_decoder_ids(model) else _DEFAULT_TEXT


def make_dummy_inputs(model: nn.Module) -> dict[str, Tensor]:
    """Return random token ids, a random image or random audio, depending on the inputs that the
    model accepts.

    A model with several towers gets an input for each.
    """
    generator = torch.Generator().manual_seed(0)
    config = model.config
    accepted = inspect.signature(model.forward).parameters
    main = main_inputs(model)[0]
    towers = hasattr(config, "vision_config") and hasattr(config, "text_config")
    inputs: dict[str, Tensor] = {}
    if main == "input_ids" or (towers and "input_ids" in accepted):
        inputs["input_ids"] = _ids(model, generator)
        if "attention_mask" in accepted:
            inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    if "pixel_values" in accepted and (main == "pixel_values" or towers):
        vision = _part(config, "vision_config", "encoder")
        size = getattr(vision, "image_size", 224)
        height, width = (size, size) if isinstance(size, int) else tuple(size)
        channels = getattr(vision, "num_channels", 3)
        inputs["pixel_values"] = torch.randn(1, channels, height, width, generator=generator)
    if main == "input_values":
        inputs["input_values"] = torch.randn(1, 8000, generator=generator)
    if main == "input_features":
        frames = 2 * int(getattr(config, "max_source_positions", 1500))
        inputs["input_features"] = torch.randn(
            1, int(getattr(config, "num_mel_bins", 80)), frames, generator=generator
        )
    if takes_decoder_ids(model):
        inputs["decoder_input_ids"] = _ids(model, generator, decoder=True)
    return inputs


def _part(config: Any, *names: str) -> Any:
    return next(
        (getattr(config, name) for name in names if getattr(config, name, None) is not None), config
    )


def _ids(model: nn.Module, generator: torch.Generator, decoder: bool = False) -> Tensor:
    config = (
        _part(model.config, "decoder", "text_config")
        if decoder
        else _part(model.config, "encoder", "text_config")
    )
    vocabulary = int(getattr(config, "vocab_size", 0) or vocabulary_size(model) or 100)
    limit = getattr(config, "max_position_embeddings", None)
    count = min(_TOKENS, limit - 3) if isinstance(limit, int) and limit > 4 else _TOKENS
    ids = torch.randint(min(10, vocabulary // 4), vocabulary, (1, count), generator=generator)
    end = getattr(config, "eos_token_id", None)
    if isinstance(end, int) and end < vocabulary and hasattr(model.config, "text_config"):
        ids[:, -1] = end  # CLIP pools at the end token
    return ids
