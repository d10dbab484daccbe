"""Tokenise texts: ids, padding, labels and offsets of tokens.

If a tokenizer raises an error or returns a malformed result, mixlens raises `InvalidInput`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mixlens.errors import EmptyInput, InvalidInput, MixlensError
from mixlens.text.tokens import TokenRow

_FOR_EACH_TOKEN = ("token_type_ids", "attention_mask", "offset_mapping", "special_tokens_mask")


def tokenise_checked(tokenizer: Any, *texts: str, **options: Any) -> Any:
    """Tokenise one text or pair of texts, and check that each column has one entry per token."""
    with tokenizer_errors(tokenizer):
        encoding = tokenizer(*texts, **options)
    _require_columns(tokenizer, encoding)
    _require_row(tokenizer, encoding)
    return encoding


def tokenise_batch(tokenizer: Any, count: int, **options: Any) -> tuple[Any, list[dict[str, Any]]]:
    """Tokenise `count` texts, and return the tokenizer's output and the columns of each text."""
    with tokenizer_errors(tokenizer):
        encoding = tokenizer(**options)
    _require_columns(tokenizer, encoding)
    for name, column in encoding.items():
        if not hasattr(column, "__len__") or isinstance(column, str) or len(column) != count:
            size = len(column) if hasattr(column, "__len__") else "no"
            raise InvalidInput(
                f"{_describe(tokenizer)} returned {size} rows of {name} for {count} texts. Use "
                "the tokenizer of this model."
            )
    columns = dict(encoding)
    encodings = [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
    for values in encodings:
        _require_row(tokenizer, values)
    return encoding, encodings


def token_names(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """Return the name of each token id, or the id itself as a string if the tokenizer has no name
    for it.
    """
    with tokenizer_errors(tokenizer):
        names = tokenizer.convert_ids_to_tokens(list(ids))
    if not isinstance(names, (list, tuple)) or len(names) != len(ids):
        raise InvalidInput(
            f"{_describe(tokenizer)} returned {names!r:.60} as the names of {len(ids)} token "
            "ids. Use the tokenizer of this model."
        )
    return [_label(number, name) for number, name in zip(ids, names, strict=True)]


def _label(number: int, name: Any) -> str:
    if isinstance(name, bytes):
        return name.decode("utf-8", "replace")
    return name if isinstance(name, str) else str(number)


def decode_ids(tokenizer: Any, ids: Sequence[int], **options: Any) -> str:
    """Decode token ids to a string."""
    with tokenizer_errors(tokenizer):
        text = tokenizer.decode(list(ids), **options)
    if not isinstance(text, str):
        raise InvalidInput(
            f"{_describe(tokenizer)} decoded token ids to {type(text).__name__}. Use the "
            "tokenizer of this model."
        )
    return text


def _require_columns(tokenizer: Any, encoded_batch: Any) -> None:
    if not isinstance(encoded_batch, Mapping) or "input_ids" not in encoded_batch:
        form = (
            "a mapping without input_ids"
            if isinstance(encoded_batch, Mapping)
            else type(encoded_batch).__name__
        )
        raise InvalidInput(
            f"{_describe(tokenizer)} returned {form}. Use a tokenizer that returns input_ids by "
            "name, like those of transformers."
        )


def _require_row(tokenizer: Any, columns: Mapping[str, Any]) -> None:
    """Raise an error unless the ids of one text are integers and all other columns have one entry
    per token.
    """
    ids = columns["input_ids"]
    is_list = hasattr(ids, "__len__") and hasattr(ids, "__iter__") and not isinstance(ids, str)
    if not is_list or not all(hasattr(kind, "__index__") for kind in set(map(type, ids))):
        raise InvalidInput(
            f"{_describe(tokenizer)} returned {ids!r:.60} as the token ids of a text. Use a "
            "tokenizer that returns a list of integers."
        )
    offsets = columns.get("offset_mapping")
    if offsets is not None and not all(isinstance(each, (tuple, list)) for each in offsets):
        raise InvalidInput(
            f"{_describe(tokenizer)} returned an offset_mapping that does not consist of pairs. "
            "Use the tokenizer of this model."
        )
    for name in _FOR_EACH_TOKEN:
        column = columns.get(name)
        if column is not None and (not hasattr(column, "__len__") or len(column) != len(ids)):
            size = len(column) if hasattr(column, "__len__") else "no"
            raise InvalidInput(
                f"{_describe(tokenizer)} returned {size} entries of {name} for {len(ids)} "
                "tokens. Use the tokenizer of this model."
            )


@contextlib.contextmanager
def tokenizer_errors(tokenizer: Any) -> Iterator[None]:
    """Context that converts any error to `InvalidInput`, with the name of the tokenizer in the
    message.
    """
    try:
        yield
    except (MixlensError, MemoryError):
        raise
    except Exception as error:  # any code may run here
        raise InvalidInput(
            f"{_describe(tokenizer)} failed with {type(error).__name__}: {error}. Use the tokenizer"
            " of this model."
        ) from error


def _describe(tokenizer: Any) -> str:
    return f"The tokenizer {type(tokenizer).__name__}"


Encoding = dict[str, list[Any]]
"""The result of tokenising one text: lists of ids, offsets and types, by name."""


def encode_texts(
    tokenizer: Any, texts: Sequence[str], pairs: Sequence[str] | None, as_target: bool = False
) -> list[Encoding]:
    """Tokenise texts, with offsets if the tokenizer supports them."""
    fast = bool(getattr(tokenizer, "is_fast", False))
    words: dict[str, Any] = {"text_target": list(texts)} if as_target else {"text": list(texts)}
    if pairs is not None:
        words["text_pair"] = list(pairs)
    if fast:
        words["return_offsets_mapping"] = True
    encoding, encodings = tokenise_batch(tokenizer, len(texts), **words)
    if (
        fast and pairs is not None
    ):  # the characters of the second segment follow those of the first and a space
        for number, (text_encoding, text) in enumerate(zip(encodings, texts, strict=True)):
            with tokenizer_errors(tokenizer):
                text_encoding["offset_mapping"] = [
                    (start + len(text) + 1, stop + len(text) + 1) if segment == 1 else (start, stop)
                    for (start, stop), segment in zip(
                        text_encoding["offset_mapping"], encoding.sequence_ids(number), strict=True
                    )
                ]
    for text_encoding, text in zip(encodings, texts, strict=True):
        if not text_encoding["input_ids"]:
            raise EmptyInput(f"The tokenizer returns no token for {text!r}. Pass a different text.")
    return encodings


def pad_sequences(
    encodings: Sequence[Mapping[str, list[Any]]], tokenizer: Any, accepted: set[str]
) -> dict[str, Tensor]:
    """Pad sequences on the right, and return them as a tensor with an attention mask."""
    lengths = np.array([len(encoding["input_ids"]) for encoding in encodings])
    real = np.arange(lengths.max()) < lengths[:, None]
    pad = getattr(tokenizer, "pad_token_id", None) or 0
    fills = {"input_ids": pad, "token_type_ids": 0}
    tensors = {}
    for name, fill in fills.items():
        if name in encodings[0] and (name in accepted or name == "input_ids"):
            whole = np.full(real.shape, fill, np.int64)
            whole[real] = np.fromiter(
                chain.from_iterable(encoding[name] for encoding in encodings), np.int64
            )
            tensors[name] = torch.from_numpy(whole)
    if "attention_mask" in accepted:
        tensors["attention_mask"] = torch.from_numpy(real.astype(np.int64))
    return tensors


def token_row(
    tokenizer: Any, ids: Sequence[int], text: str | None = None, offsets: Any = None
) -> TokenRow:
    """Return the tokens of one text as a `TokenRow`, with their offsets if known."""
    return token_rows(tokenizer, [ids], [text], [offsets])[0]


def token_rows(
    tokenizer: Any,
    ids: Sequence[Sequence[int]],
    texts: Sequence[str | None],
    offsets: Sequence[Any],
) -> list[TokenRow]:
    """Return the tokens of many texts as a list of `TokenRow`. Each distinct token is looked up
    once.
    """
    id_lists = [list(map(int, text_ids)) for text_ids in ids]
    if tokenizer is None:
        return [TokenRow(tuple(map(str, text_ids))) for text_ids in id_lists]
    special = set(getattr(tokenizer, "all_special_ids", ()))
    added_tokens = getattr(
        tokenizer, "added_tokens_decoder", {}
    )  # a chat template has its own special tokens
    special |= {number for number, token in added_tokens.items() if token.special}
    numbers = list(set(chain.from_iterable(id_lists)))
    labels = dict(zip(numbers, token_names(tokenizer, numbers), strict=True))
    marks = {number: number in special for number in numbers}
    return [
        TokenRow(
            tuple(map(labels.__getitem__, text_ids)),
            text,
            _places(text_offsets)
            if None not in (text, text_offsets) and len(text_offsets) == len(text_ids)
            else None,
            tuple(map(marks.__getitem__, text_ids)),
        )
        for text_ids, text, text_offsets in zip(id_lists, texts, offsets, strict=True)
    ]


def _places(offsets: Any) -> tuple[tuple[int, int], ...]:
    if offsets and type(offsets[0]) is tuple:  # as in fast tokenizers
        return tuple(offsets)
    return tuple([(int(start), int(stop)) for start, stop in offsets])  # faster than a generator
