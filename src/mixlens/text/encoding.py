"""Tokenise texts: ids, padding, labels and offsets of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mixlens.errors import EmptyInput
from mixlens.text.tokenizer_calls import token_names, tokenized_batch, tokenizer_errors
from mixlens.text.tokens import TokenRow

Encoding = dict[str, list[Any]]
"""The tokenised form of one text: ids, offsets, types by name."""


def encoded(
    tokenizer: Any, texts: Sequence[str], pairs: Sequence[str] | None, as_target: bool = False
) -> list[Encoding]:
    """Return texts tokenised, with offsets if the tokenizer has them."""
    fast = bool(getattr(tokenizer, "is_fast", False))
    words: dict[str, Any] = {"text_target": list(texts)} if as_target else {"text": list(texts)}
    if pairs is not None:
        words["text_pair"] = list(pairs)
    if fast:
        words["return_offsets_mapping"] = True
    made, rows = tokenized_batch(tokenizer, len(texts), **words)
    if (
        fast and pairs is not None
    ):  # the characters of the second segment follow those of the first and a space
        for number, (row, text) in enumerate(zip(rows, texts, strict=True)):
            with tokenizer_errors(tokenizer):
                row["offset_mapping"] = [
                    (start + len(text) + 1, stop + len(text) + 1) if segment == 1 else (start, stop)
                    for (start, stop), segment in zip(
                        row["offset_mapping"], made.sequence_ids(number), strict=True
                    )
                ]
    for row, text in zip(rows, texts, strict=True):
        if not row["input_ids"]:
            raise EmptyInput(f"{text!r} has no token for this tokenizer. Pass another text.")
    return rows


def padded(
    rows: Sequence[Mapping[str, list[Any]]], tokenizer: Any, accepted: set[str]
) -> dict[str, Tensor]:
    """Return sequences padded on the right, with their mask."""
    lengths = np.array([len(row["input_ids"]) for row in rows])
    real = np.arange(lengths.max()) < lengths[:, None]
    pad = getattr(tokenizer, "pad_token_id", None) or 0
    fills = {"input_ids": pad, "token_type_ids": 0}
    made = {}
    for name, fill in fills.items():
        if name in rows[0] and (name in accepted or name == "input_ids"):
            whole = np.full(real.shape, fill, np.int64)
            whole[real] = np.fromiter(chain.from_iterable(row[name] for row in rows), np.int64)
            made[name] = torch.from_numpy(whole)
    if "attention_mask" in accepted:
        made["attention_mask"] = torch.from_numpy(real.astype(np.int64))
    return made


def token_row(
    tokenizer: Any, ids: Sequence[int], text: str | None = None, offsets: Any = None
) -> TokenRow:
    """Return the tokens of one text by their names, with their offsets if known."""
    return token_rows(tokenizer, [ids], [text], [offsets])[0]


def token_rows(
    tokenizer: Any,
    ids: Sequence[Sequence[int]],
    texts: Sequence[str | None],
    offsets: Sequence[Any],
) -> list[TokenRow]:
    """Return the same for many texts. Each token is looked up once."""
    rows = [list(map(int, row)) for row in ids]
    if tokenizer is None:
        return [TokenRow(tuple(map(str, row))) for row in rows]
    special = set(getattr(tokenizer, "all_special_ids", ()))
    added = getattr(
        tokenizer, "added_tokens_decoder", {}
    )  # a chat template has its own special tokens
    special |= {number for number, token in added.items() if token.special}
    numbers = list(set(chain.from_iterable(rows)))
    labels = dict(zip(numbers, token_names(tokenizer, numbers), strict=True))
    marks = {number: number in special for number in numbers}
    return [
        TokenRow(
            tuple(map(labels.__getitem__, row)),
            text,
            _places(own) if None not in (text, own) and len(own) == len(row) else None,
            tuple(map(marks.__getitem__, row)),
        )
        for row, text, own in zip(rows, texts, offsets, strict=True)
    ]


def _places(offsets: Any) -> tuple[tuple[int, int], ...]:
    if offsets and type(offsets[0]) is tuple:  # as in fast tokenizers
        return tuple(offsets)
    return tuple([(int(start), int(stop)) for start, stop in offsets])  # faster than a generator
