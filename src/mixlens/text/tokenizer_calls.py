"""Call a tokenizer and check its output. Failures and malformed outputs raise errors of mixlens."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mixlens.errors import InvalidInput, MixlensError

_FOR_EACH_TOKEN = ("token_type_ids", "attention_mask", "offset_mapping", "special_tokens_mask")


def tokenized(tokenizer: Any, *texts: str, **options: Any) -> Any:
    """Return one text or pair tokenised, with one entry per token in each column."""
    with tokenizer_errors(tokenizer):
        made = tokenizer(*texts, **options)
    _require_columns(tokenizer, made)
    _require_row(tokenizer, made)
    return made


def tokenized_batch(tokenizer: Any, count: int, **options: Any) -> tuple[Any, list[dict[str, Any]]]:
    """Return `count` texts tokenised: the tokenizer's output, and the columns of each text."""
    with tokenizer_errors(tokenizer):
        made = tokenizer(**options)
    _require_columns(tokenizer, made)
    for name, column in made.items():
        if not hasattr(column, "__len__") or isinstance(column, str) or len(column) != count:
            size = len(column) if hasattr(column, "__len__") else "no"
            raise InvalidInput(
                f"{_named(tokenizer)} returned {size} rows of {name} for {count} texts. Use "
                "the tokenizer of this model."
            )
    columns = dict(made)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    for row in rows:
        _require_row(tokenizer, row)
    return made, rows


def token_names(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """Return the name of each token id, or its number if the tokenizer has none."""
    with tokenizer_errors(tokenizer):
        names = tokenizer.convert_ids_to_tokens(list(ids))
    if not isinstance(names, (list, tuple)) or len(names) != len(ids):
        raise InvalidInput(
            f"{_named(tokenizer)} returned {names!r:.60} as the names of {len(ids)} token "
            "ids. Use the tokenizer of this model."
        )
    return [_label(number, name) for number, name in zip(ids, names, strict=True)]


def _label(number: int, name: Any) -> str:
    if isinstance(name, bytes):
        return name.decode("utf-8", "replace")
    return name if isinstance(name, str) else str(number)


def decoded(tokenizer: Any, ids: Sequence[int], **options: Any) -> str:
    """Return the text of token ids."""
    with tokenizer_errors(tokenizer):
        text = tokenizer.decode(list(ids), **options)
    if not isinstance(text, str):
        raise InvalidInput(
            f"{_named(tokenizer)} decoded token ids to {type(text).__name__}. Use the "
            "tokenizer of this model."
        )
    return text


def _require_columns(tokenizer: Any, made: Any) -> None:
    if not isinstance(made, Mapping) or "input_ids" not in made:
        form = "a mapping without input_ids" if isinstance(made, Mapping) else type(made).__name__
        raise InvalidInput(
            f"{_named(tokenizer)} returned {form}. Use a tokenizer that returns input_ids by "
            "name, like those of transformers."
        )


def _require_row(tokenizer: Any, row: Mapping[str, Any]) -> None:
    """Raise unless the ids of one text are integers, with one entry per token in other columns."""
    ids = row["input_ids"]
    listed = hasattr(ids, "__len__") and hasattr(ids, "__iter__") and not isinstance(ids, str)
    if not listed or not all(hasattr(kind, "__index__") for kind in set(map(type, ids))):
        raise InvalidInput(
            f"{_named(tokenizer)} returned {ids!r:.60} as the token ids of a text. Use a "
            "tokenizer that returns a list of integers."
        )
    offsets = row.get("offset_mapping")
    if offsets is not None and not all(isinstance(each, (tuple, list)) for each in offsets):
        raise InvalidInput(
            f"{_named(tokenizer)} returned an offset_mapping without pairs. Use the tokenizer "
            "of this model."
        )
    for name in _FOR_EACH_TOKEN:
        column = row.get(name)
        if column is not None and (not hasattr(column, "__len__") or len(column) != len(ids)):
            size = len(column) if hasattr(column, "__len__") else "no"
            raise InvalidInput(
                f"{_named(tokenizer)} returned {size} entries of {name} for {len(ids)} "
                "tokens. Use the tokenizer of this model."
            )


@contextlib.contextmanager
def tokenizer_errors(tokenizer: Any) -> Iterator[None]:
    """Raise any error inside as `InvalidInput` that names the tokenizer."""
    try:
        yield
    except (MixlensError, MemoryError):
        raise
    except Exception as error:  # any code may run here
        raise InvalidInput(
            f"{_named(tokenizer)} failed with {type(error).__name__}: {error}. Use the tokenizer"
            " of this model."
        ) from error


def _named(tokenizer: Any) -> str:
    return f"The tokenizer {type(tokenizer).__name__}"
