"""Turn examples into token ids, and split them for training and evaluation."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from mixlens.datasets.examples import Example, Labelled
from mixlens.errors import EmptyInput, InvalidInput, MissingTokenizer
from mixlens.text.encoding import tokenise_checked

Kind = TypeVar("Kind", bound=Example)


def halves(examples: Sequence[Kind], seed: int = 0) -> tuple[list[Kind], list[Kind]]:
    """Split the examples of each group (paradigm) into halves for training and evaluation.

    If the number of texts is odd, the training half gets the additional text.
    """
    return _split_groups(examples, lambda example: example.group or "", 0.5, seed)


def portion(examples: Sequence[Labelled], seed: int = 0) -> tuple[list[Labelled], list[Labelled]]:
    """Split off a tenth of the examples of each class for evaluation.

    Return the training examples and the evaluation examples.
    """
    return _split_groups(examples, lambda example: example.label, 0.1, seed)


def _split_groups(
    examples: Sequence[Kind], part_of: Callable[[Kind], str], share: float, seed: int
) -> tuple[list[Kind], list[Kind]]:
    """Split each group of examples in two.

    Examples with equal texts stay together, because the same text in both parts would leak training
    data.
    """
    chance = random.Random(seed)
    parts: dict[str, dict[tuple[str, str | None], list[Kind]]] = {}
    for example in examples:
        parts.setdefault(part_of(example), {}).setdefault((example.text, example.pair), []).append(
            example
        )
    first: list[Kind] = []
    second: list[Kind] = []
    for _, texts in sorted(parts.items()):
        order = chance.sample(list(texts.values()), len(texts))
        first_count = int(len(order) * share)
        for same in order[: len(order) - first_count]:
            first += same
        for same in order[len(order) - first_count :]:
            second += same
    if not first or not second:
        raise InvalidInput(
            f"{len(examples)} examples with {sum(map(len, parts.values()))} different texts "
            "are too few to split. Pass more examples."
        )
    return first, second


def token_inputs(
    model: Any, tokenizer: Any, text: str | tuple[str, str], longest: int | None = None
) -> dict[str, list[int]]:
    """Return the token ids of a text, and its token type ids if the model uses them.

    If you pass `longest`, the text is truncated to this number of tokens.
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
    encoding = tokenise_checked(tokenizer, *texts, **cut)
    if not encoding["input_ids"]:
        raise EmptyInput(f"The tokenizer returns no tokens for {text!r}. Remove the example.")
    accepted = inspect.signature(model.forward).parameters
    return {
        name: list(encoding[name])
        for name in ("input_ids", "token_type_ids")
        if name in encoding and name in accepted
    }


def most_tokens(model: Any, tokenizer: Any) -> int:
    """Return the maximum number of tokens that the model and its tokenizer accept."""
    limits = (
        getattr(tokenizer, "model_max_length", None),
        getattr(model.config, "max_position_embeddings", None),
    )
    return min(int(number) for number in (*limits, 2**31) if number)
