"""Look up words and classes by name, return the names of outputs, and check that a tokenizer
belongs to a model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from mixlens.errors import (
    InvalidInput,
    MissingTokenizer,
    no_such,
)
from mixlens.text.encoding import decode_ids, token_names, tokenise_checked
from mixlens.text.input_checks import vocabulary_size

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording


def special_id(recording: Recording, name: str) -> int | None:
    """Return the id of the "mask", "unk" or "pad" token, from the tokenizer or the model's
    config.
    """
    for holder in (recording.tokenizer, recording.model.config):
        number = getattr(holder, f"{name}_token_id", None)
        if isinstance(number, int):
            return number
    return None


def predicts_classes(recording: Recording, logits: Tensor) -> bool:
    """Return whether the model predicts classes of the text or of each token, rather than words."""
    return logits.dim() == 2 or gives_token_classes(recording.model.config, logits)


def gives_token_classes(config: Any, logits: Tensor) -> bool:
    """Return whether logits [text, token, output] are scores of classes rather than words."""
    outputs = int(logits.shape[-1])
    vocabulary = getattr(config, "vocab_size", None)
    return outputs != vocabulary and outputs == getattr(config, "num_labels", None)


def label_id(recording: Recording, name: str | int, outputs: int) -> int:
    """Return the index of a class, given its name or its index."""
    config = recording.model.config
    class_ids: dict[str, int] = {
        label: number for number, label in (getattr(config, "id2label", None) or {}).items()
    }
    if isinstance(name, str):
        if name in class_ids:
            return int(class_ids[name])
        if not name.isdigit():
            raise InvalidInput(no_such("class", name, class_ids, "The model has"))
    if not 0 <= int(name) < outputs:
        raise InvalidInput(f"Unknown class {name}. The model has {outputs} classes.")
    return int(name)


def label_name(recording: Recording, number: int) -> str:
    """Return the name of a class, or its index as a string if it has no name."""
    names = getattr(recording.model.config, "id2label", None) or {}
    return str(names.get(number, number))


def word_id(tokenizer: Any, word: str | int, outputs: int) -> int:
    """Return the token id of a single-token word, for a model with `outputs` tokens.

    A token id is checked and returned unchanged. The spelling with a leading space is tried first,
    because words inside a text follow a space.
    """
    if isinstance(word, int):
        if not 0 <= word < outputs:
            raise InvalidInput(
                f"Token id {word} is out of range (0–{outputs - 1}). Pass a token of the model."
            )
        return word
    if tokenizer is None:
        raise MissingTokenizer(
            f"The word {word!r} needs a tokenizer, and the model has none. Add one, or "
            "pass a token id instead of the word."
        )
    unknown = getattr(tokenizer, "unk_token_id", None)
    tries = [
        tokenise_checked(tokenizer, text, add_special_tokens=False)["input_ids"]
        for text in (" " + word, word)
    ]
    tries.append([tokenizer.convert_tokens_to_ids(word)])
    for ids in tries:
        if (
            len(ids) == 1
            and ids[0] is not None
            and (ids[0] != unknown or word == getattr(tokenizer, "unk_token", None))
        ):
            return int(ids[0])
    parts = " ".join(token_names(tokenizer, tries[1]))
    reason = f"it is split into: {parts}" if parts else "it has no tokens at all"
    raise InvalidInput(
        f"{word!r} is not one token of this model's vocabulary ({reason}). Choose another word."
    )


def word_name(recording: Recording, number: int) -> str:
    """Return the text of a token, or its id as a string if there is no tokenizer."""
    if recording.tokenizer is None:
        return str(number)
    text = decode_ids(recording.tokenizer, [number]).strip()
    return text or token_names(recording.tokenizer, [number])[0]


def tokenizer_mismatch(model: Any, tokenizer: Any) -> str | None:
    """Return the reason why a tokenizer may belong to a different model, or None.

    The embedding of a matching model has one row for every token, and at most a few per cent more
    rows as padding.
    """

    words = vocabulary_size(model)
    if tokenizer is None or not words or not hasattr(tokenizer, "__len__"):
        return None
    tokens = len(tokenizer)
    if 0.9 * words <= tokens <= words:
        return None
    return (
        f"the tokenizer has {tokens:,} tokens but the model {words:,}. It may belong to a "
        "different model, and its tokens would then be read as other words."
    )
