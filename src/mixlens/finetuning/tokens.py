"""A text as the token rows that a model takes."""

from __future__ import annotations

import inspect
from typing import Any

from mixlens.errors import EmptyInput, InvalidInput, MissingTokenizer
from mixlens.text.tokenizer_calls import tokenized


def token_inputs(
    model: Any, tokenizer: Any, text: str | tuple[str, str], longest: int | None = None
) -> dict[str, list[int]]:
    """Token ids, and segments if the model takes them; cut to `longest` tokens if that is
    given.
    """
    if tokenizer is None:
        raise MissingTokenizer(
            "fine-tuning reads texts, and the model came without a tokenizer: give it one"
        )
    if getattr(model.config, "is_encoder_decoder", False):
        raise InvalidInput(
            "encoder-decoder models are not fine-tuned here: use a masked or a causal language"
            " model, or an encoder"
        )
    texts = (text,) if isinstance(text, str) else text
    cut: dict[str, Any] = (
        {} if longest is None else {"truncation": "longest_first", "max_length": longest}
    )
    made = tokenized(tokenizer, *texts, **cut)
    if not made["input_ids"]:
        raise EmptyInput(f"{text!r} has no token for this tokenizer. Remove the example.")
    accepted = inspect.signature(model.forward).parameters
    return {
        name: list(made[name])
        for name in ("input_ids", "token_type_ids")
        if name in made and name in accepted
    }


def most_tokens(model: Any, tokenizer: Any) -> int:
    """How many tokens the model has positions for."""
    limits = (
        getattr(tokenizer, "model_max_length", None),
        getattr(model.config, "max_position_embeddings", None),
    )
    return min(int(number) for number in (*limits, 2**31) if number)
