"""Pool the states of tokens into one vector, as a sentence encoder does.

The file `1_Pooling/config.json`, which sentence-transformers saves next to the weights, names the
pooling of a model's training. A SentenceTransformer pools with its own modules
(`mixlens.model.sentence_encoder`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from mixlens.errors import InvalidInput, UnsupportedModel
from mixlens.model.sentence_folder import embedding_steps, read_settings

POOLINGS = ("mean", "cls", "last")
_NAMES = {"mean": "mean", "cls": "cls", "lasttoken": "last"}  # names of sentence-transformers
_PLAIN = ("Transformer", "Pooling", "Normalize")  # the norm does not change a cosine


def pooled(
    states: Float[Tensor, "text token d_model"], real: Bool[Tensor, "text token"], kind: str
) -> Float[Tensor, "text d_model"]:
    """Return one vector for each text. Real tokens come first."""
    if kind == "cls":
        return states[:, 0]
    if kind == "last":
        return states[torch.arange(len(states), device=states.device), real.sum(1) - 1]
    weights = real.to(states.dtype)
    return (states * weights[..., None]).sum(1) / weights.sum(1, keepdim=True)


def pooling_of(model: nn.Module, named: str | None) -> str:
    """Return the named pooling, or the one that the model was trained with."""
    if named is not None:
        if named not in POOLINGS:
            raise InvalidInput(f"Unknown pooling {named!r}. Choose one of: {', '.join(POOLINGS)}.")
        return named
    known = _from_files(str(getattr(model.config, "_name_or_path", "")))
    if known is None:
        raise InvalidInput(
            "The pooling of this model is unknown. Set the option pooling to "
            f"{', '.join(POOLINGS[:-1])} or {POOLINGS[-1]}."
        )
    return known


def _from_files(name: str) -> str | None:
    if not os.path.isdir(name):
        return None
    other = [kind for kind, _ in embedding_steps(name) if kind not in _PLAIN]
    if other:
        raise UnsupportedModel(
            f"{', '.join(other)} follows the pooling of this encoder, so the pooled states "
            "are not its embedding. Set the option pooling to explain the pooled states"
        )
    settings = read_settings(name, "1_Pooling", "config.json")
    if not settings:
        return None
    _require_plain_texts(name)
    return _kind(settings)


def _require_plain_texts(name: str) -> None:
    """Raise if the encoder reads texts differently from its tokenizer."""
    texts = read_settings(name, "config_sentence_transformers.json")
    prompt = (texts.get("prompts") or {}).get(texts.get("default_prompt_name"))
    spelling = read_settings(name, "sentence_bert_config.json").get("do_lower_case")
    if prompt or spelling or texts.get("truncate_dim"):
        said = f"the prompt {prompt!r}" if prompt else "its own settings"
        raise UnsupportedModel(
            f"this encoder was saved with {said}, which changes its embeddings. Load it with "
            "sentence_transformers.SentenceTransformer and pass that to Lens, or set the "
            "option pooling to explain the plain text"
        )


def length_limit(model: nn.Module) -> int | None:
    """Return how many tokens of a text a saved encoder reads, or None if its files do not tell."""
    name = str(getattr(model.config, "_name_or_path", ""))
    return read_settings(name, "sentence_bert_config.json").get("max_seq_length")


def _kind(settings: Mapping[str, Any]) -> str | None:
    """Return the pooling in the settings of sentence-transformers, old or new, or None if several
    are combined.
    """
    chosen = settings.get("pooling_mode")
    if chosen is None:
        names = {"cls_token": "cls", "mean_tokens": "mean", "lasttoken": "lasttoken"}
        chosen = [
            names.get(key.removeprefix("pooling_mode_"), key)
            for key, value in settings.items()
            if key.startswith("pooling_mode_") and value is True
        ]
    chosen = [chosen] if isinstance(chosen, str) else list(chosen)
    return _NAMES.get(chosen[0]) if len(chosen) == 1 else None
