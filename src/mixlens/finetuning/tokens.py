"""Turn a text into token ids for a model."""

from __future__ import annotations

import inspect
from typing import Any

from mixlens.errors import EmptyInput, InvalidInput, MissingTokenizer
from mixlens.text.encoding import tokenized


def token_inputs(
    model: Any, tokenizer: Any, text: str | tuple[str, str], longest: int | None = None
) -> dict[str, list[int]]:
    """Return token ids, and segments if the model uses them, truncated to `longest` tokens if
    set.
    """
    if tokenizer is None:
        raise MissingTokenizer("Fine-tuning needs a tokenizer. Add one to the model.")
    if getattr(model.config, "is_encoder_decoder", False):
        raise InvalidInput(
            "Encoder-decoder models are not supported. Pass a masked or causal language "
            "model, or an encoder."
        )
    texts = (text,) if isinstance(text, str) else text
    cut: dict[str, Any] = (
        {} if longest is None else {"truncation": "longest_first", "max_length": longest}
    )
    made = tokenized(tokenizer, *texts, **cut)
    if not made["input_ids"]:
        raise EmptyInput(f"{text!r} is encoded to no tokens. Remove the example.")
    accepted = inspect.signature(model.forward).parameters
    return {
        name: list(made[name])
        for name in ("input_ids", "token_type_ids")
        if name in made and name in accepted
    }


def most_tokens(model: Any, tokenizer: Any) -> int:
    """Return the number of positions of the model."""
    limits = (
        getattr(tokenizer, "model_max_length", None),
        getattr(model.config, "max_position_embeddings", None),
    )
    return min(int(number) for number in (*limits, 2**31) if number)
