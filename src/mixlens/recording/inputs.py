"""From a text or a dict of tensors to what a model takes: checked, on its device, real tokens
first.

Padding never changes a score. Rows that are padded on the left are moved to the front, because many
models count positions from the first column; padding on the right is then cut off wherever no row
needs it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from mixlens.errors import EmptyInput, InputTooLong, InvalidInput, MissingTokenizer, WrongKeys
from mixlens.tokens import TokenRow

Text = str | tuple[str, str]
"""One text, or a pair: two segments, or source and target for an encoder-decoder model."""


@dataclass(frozen=True)
class Prepared:
    """Inputs ready for the model.

    Token rows are known for text: of the main input, and of the decoder's.
    """

    tensors: dict[str, Any]
    rows: Sequence[TokenRow] | None
    decoder_rows: Sequence[TokenRow] | None


def prepared(
    model: nn.Module, tokenizer: Any, given: Text | Sequence[Text] | Mapping[str, Any]
) -> Prepared:
    if isinstance(given, Mapping):
        return _from_tensors(model, tokenizer, dict(given))
    if (not isinstance(given, (str, tuple)) and not hasattr(given, "__iter__")) or isinstance(
        given, Tensor
    ):
        raise InvalidInput(
            "a text, a list of texts or a dict of input tensors is needed, not"
            f" {type(given).__name__}"
        )
    texts = cast(list[Text], [given] if isinstance(given, str) or is_pair(given) else list(given))
    if not texts:
        raise EmptyInput("no text was given")
    for text in texts:
        if not isinstance(text, str) and not is_pair(text):
            raise InvalidInput(
                f"a text is a string or a pair of strings, not {type(text).__name__}"
            )
    if tokenizer is None:
        raise MissingTokenizer(
            "a text needs a tokenizer: use Lens(model, tokenizer), or pass a dict of input tensors"
        )
    return _from_texts(model, tokenizer, texts)


def is_pair(text: Any) -> bool:
    return (
        isinstance(text, tuple) and len(text) == 2 and all(isinstance(part, str) for part in text)
    )


# -------------------------------------------------------------------------------------------- texts


def _from_texts(model: nn.Module, tokenizer: Any, texts: Sequence[Text]) -> Prepared:
    translated = bool(getattr(model.config, "is_encoder_decoder", False))
    firsts = [text if isinstance(text, str) else text[0] for text in texts]
    pairs = [None if isinstance(text, str) else text[1] for text in texts]
    if any(pair is None for pair in pairs) != all(pair is None for pair in pairs):
        raise InvalidInput("either every text is a pair or none is")
    for text in firsts:
        if not text.strip():
            raise EmptyInput("the text is empty")
    seconds = [pair for pair in pairs if pair is not None]
    rows = _encoded(tokenizer, firsts, None if translated or not seconds else seconds)
    accepted = inspect.signature(model.forward).parameters
    tensors = _padded(rows, tokenizer, set(accepted))
    decoder_rows = None
    if translated:
        starts = _start_token(model)
        targets = (
            _encoded(tokenizer, seconds, None, as_target=True)
            if seconds
            else [{"input_ids": []} for _ in texts]
        )
        shifted = [
            {
                "input_ids": [starts, *row["input_ids"][:-1]],
                "offset_mapping": [(0, 0), *row.get("offset_mapping", [])[:-1]],
            }
            for row in targets
        ]
        made = _padded(shifted, tokenizer, {"attention_mask"})
        tensors["decoder_input_ids"] = made["input_ids"]
        tensors["decoder_attention_mask"] = made["attention_mask"]
        decoder_rows = [
            _labels(tokenizer, row["input_ids"], text, row["offset_mapping"])
            for row, text in zip(shifted, seconds or [""] * len(shifted), strict=True)
        ]
    tensors = _checked(model, tensors)
    whole = [
        text if pair is None or translated else f"{text} {pair}"
        for text, pair in zip(firsts, pairs, strict=True)
    ]
    labelled = [
        _labels(tokenizer, row["input_ids"], text, row.get("offset_mapping"))
        for row, text in zip(rows, whole, strict=True)
    ]
    return Prepared(tensors, labelled, decoder_rows)


def _encoded(
    tokenizer: Any, texts: Sequence[str], pairs: Sequence[str] | None, as_target: bool = False
) -> list[dict[str, list[Any]]]:
    fast = bool(getattr(tokenizer, "is_fast", False))
    words: dict[str, Any] = {"text_target": list(texts)} if as_target else {"text": list(texts)}
    if pairs is not None:
        words["text_pair"] = list(pairs)
    made = tokenizer(**words, return_offsets_mapping=True) if fast else tokenizer(**words)
    rows = [{name: list(values[i]) for name, values in made.items()} for i in range(len(texts))]
    if fast and pairs is not None:  # the second segment's characters follow the first's and a blank
        for number, (row, text) in enumerate(zip(rows, texts, strict=True)):
            row["offset_mapping"] = [
                (start + len(text) + 1, stop + len(text) + 1) if segment == 1 else (start, stop)
                for (start, stop), segment in zip(
                    row["offset_mapping"], made.sequence_ids(number), strict=True
                )
            ]
    for row, text in zip(rows, texts, strict=True):
        if not row["input_ids"]:
            raise EmptyInput(f"the tokenizer makes no token of {text!r}")
    return rows


def _padded(
    rows: Sequence[Mapping[str, list[Any]]], tokenizer: Any, accepted: set[str]
) -> dict[str, Tensor]:
    """Rows padded on the right, with their mask."""
    width = max(len(row["input_ids"]) for row in rows)
    pad = getattr(tokenizer, "pad_token_id", None) or 0
    fills = {"input_ids": pad, "token_type_ids": 0}
    made = {
        name: torch.tensor([[*row[name], *[fill] * (width - len(row[name]))] for row in rows])
        for name, fill in fills.items()
        if name in rows[0] and (name in accepted or name == "input_ids")
    }
    if "attention_mask" in accepted:
        lengths = [len(row["input_ids"]) for row in rows]
        made["attention_mask"] = torch.tensor([[1] * n + [0] * (width - n) for n in lengths])
    return made


def _start_token(model: nn.Module) -> int:
    for config in (
        getattr(model, "generation_config", None),
        model.config,
        getattr(model.config, "decoder", None),
    ):
        for name in ("decoder_start_token_id", "bos_token_id", "pad_token_id"):
            found = getattr(config, name, None)
            if isinstance(found, int):
                return found
    raise WrongKeys(
        "this model names no decoder_start_token_id: pass a dict with decoder_input_ids"
    )


def _labels(
    tokenizer: Any, ids: Sequence[int], text: str | None = None, offsets: Any = None
) -> TokenRow:
    ids = [int(i) for i in ids]
    if tokenizer is None:
        return TokenRow(tuple(str(i) for i in ids))
    special = set(getattr(tokenizer, "all_special_ids", ()))
    marks = tuple(i in special for i in ids)
    names = tokenizer.convert_ids_to_tokens(ids)
    labels = tuple(str(i) if name is None else name for i, name in zip(ids, names, strict=True))
    known = offsets is not None and text is not None and len(offsets) == len(ids)
    places = tuple((int(a), int(b)) for a, b in offsets) if known else None
    return TokenRow(labels, text, places, marks)


# ------------------------------------------------------------------------------------------ tensors


def _from_tensors(model: nn.Module, tokenizer: Any, given: dict[str, Any]) -> Prepared:
    tensors = {name: _tensor(name, value) for name, value in given.items() if value is not None}
    if "past_key_values" in tensors:
        raise WrongKeys(
            "past_key_values: a recording needs the whole sequence, not its continuation"
        )
    labels = tensors.pop("labels", None)
    if getattr(model.config, "is_encoder_decoder", False) and not {
        "decoder_input_ids",
        "decoder_inputs_embeds",
    } & set(tensors):
        rows = (
            next(value for value in tensors.values() if isinstance(value, Tensor)).shape[0]
            if tensors
            else 1
        )
        start = torch.full((rows, 1), _start_token(model))
        tensors["decoder_input_ids"] = (
            start if labels is None else torch.cat([start, labels[:, :-1].clamp_min(0)], 1)
        )
    tensors = _checked(model, _real_tokens_first(tensors))
    return Prepared(tensors, _rows(tokenizer, tensors, ""), _rows(tokenizer, tensors, "decoder_"))


def _tensor(name: str, value: Any) -> Any:
    if isinstance(value, (list, tuple)) and name.endswith(("ids", "mask")):
        try:
            value = torch.tensor(value)
        except ValueError as error:
            raise InvalidInput(
                f"{name}: rows of different lengths need padding and an attention_mask"
            ) from error
    if hasattr(value, "__array__") and not isinstance(value, Tensor):
        value = torch.as_tensor(value)
    if isinstance(value, Tensor) and value.dim() == 1 and name.endswith(("ids", "mask")):
        value = value[None]
    return value


def _rows(tokenizer: Any, tensors: Mapping[str, Any], prefix: str) -> list[TokenRow] | None:
    ids = tensors.get(prefix + "input_ids")
    if ids is None:
        return None
    lengths = row_lengths(tensors, prefix) or [int(ids.shape[1])] * int(ids.shape[0])
    return [
        _labels(tokenizer, row[:length].tolist()) for row, length in zip(ids, lengths, strict=True)
    ]


def row_lengths(tensors: Mapping[str, Any], prefix: str = "") -> list[int] | None:
    """Real tokens of each row, where a mask says so and they stand in front."""
    mask = tensors.get(prefix + "attention_mask")
    if not isinstance(mask, Tensor) or mask.dim() != 2:
        return None
    lengths = mask.bool().sum(1)
    in_front = torch.arange(mask.shape[1], device=mask.device) < lengths[:, None]
    return [int(n) for n in lengths] if bool((in_front == mask.bool()).all()) else None


def is_padded_sound(tensors: Mapping[str, Any]) -> bool:
    """A batch of sounds of different lengths: its padding would reach real frames."""
    mask = tensors.get("attention_mask")
    if (
        not isinstance(mask, Tensor)
        or mask.dim() != 2
        or {"input_ids", "inputs_embeds", "pixel_values"} & set(tensors)
    ):
        return False
    return not bool(mask.bool().all())


def unpadded_row(tensors: Mapping[str, Any], row: int) -> dict[str, Any]:
    """One row of a padded batch of sounds, cut to its real samples."""
    mask = tensors["attention_mask"][row].bool()
    kept = {
        name: value[row : row + 1] for name, value in tensors.items() if isinstance(value, Tensor)
    }
    return {
        name: value[..., mask] if value.shape[-1] == len(mask) else value
        for name, value in kept.items()
        if name != "attention_mask"
    }


def _real_tokens_first(tensors: dict[str, Any]) -> dict[str, Any]:
    for prefix in ("", "decoder_"):
        mask = tensors.get(prefix + "attention_mask")
        if not isinstance(mask, Tensor) or mask.dim() != 2:
            continue
        if not bool(mask.bool().any(1).all()):
            raise EmptyInput(
                "a row of the batch has no real token (its attention_mask is all zero)"
            )
        if prefix + "input_ids" not in tensors and prefix + "inputs_embeds" not in tensors:
            if not bool(mask.bool().all()):
                raise InvalidInput(
                    "padded audio or images: the layers below the first attention mix padding into"
                    " real frames. Record such rows one at a time, without padding (`Lens.measure`"
                    " does this for a list)."
                )
            continue
        order = torch.argsort(mask.bool().logical_not().long(), dim=1, stable=True)
        if not _is_padding(mask):
            continue
        width = int(mask.bool().sum(1).max())
        for name in (
            "input_ids",
            "attention_mask",
            "token_type_ids",
            "position_ids",
            "inputs_embeds",
        ):
            value = tensors.get(prefix + name)
            if isinstance(value, Tensor) and value.shape[:2] == mask.shape:
                moved = value.gather(
                    1, order if value.dim() == 2 else order[..., None].expand(value.shape)
                )
                tensors[prefix + name] = moved[:, :width]
    return tensors


def _is_padding(mask: Tensor) -> bool:
    """Zeros at one end of each row only: a mask with holes is the user's intention, not padding."""
    changes = (mask.bool()[:, 1:] != mask.bool()[:, :-1]).sum(1)
    return bool((changes <= 1).all())


# ------------------------------------------------------------------------------------------- checks


def _checked(model: nn.Module, tensors: dict[str, Any]) -> dict[str, Any]:
    accepted = inspect.signature(model.forward).parameters
    for name in tensors:
        if name not in accepted:
            takes = [
                key
                for key, p in accepted.items()
                if p.kind is not p.VAR_KEYWORD
                and key.endswith(("ids", "mask", "values", "features"))
            ]
            raise WrongKeys(
                f"{type(model).__name__} takes no {name!r}; it takes: {', '.join(takes)}"
            )
    main = getattr(model, "main_input_name", "input_ids")
    embeds = {"inputs_embeds", "encoder_outputs"}
    if main not in tensors and not embeds & set(tensors):
        raise WrongKeys(
            f"{type(model).__name__} needs {main!r}; got: {', '.join(tensors) or 'nothing'}"
        )
    for name, value in tensors.items():
        if isinstance(value, Tensor) and (value.numel() == 0):
            raise EmptyInput(f"{name} is empty (shape {tuple(value.shape)})")
    _check_lengths(model, tensors)
    parameter = next(model.parameters())
    moved = {}
    for name, value in tensors.items():
        if isinstance(value, Tensor):
            value = value.to(parameter.device)
            if value.is_floating_point() and name != "attention_mask":
                value = value.to(parameter.dtype)
        moved[name] = value
    return moved


def _check_lengths(model: nn.Module, tensors: Mapping[str, Any]) -> None:
    config = model.config
    for prefix, part in (("", "encoder"), ("decoder_", "decoder")):
        ids = tensors.get(prefix + "input_ids", tensors.get(prefix + "inputs_embeds"))
        if not isinstance(ids, Tensor):
            continue
        inner = (
            getattr(config, part, None) if getattr(config, "is_encoder_decoder", False) else None
        )
        limit = _positions(
            model,
            inner if inner is not None and hasattr(inner, "max_position_embeddings") else config,
            prefix,
        )
        if limit is not None and ids.shape[1] > limit:
            raise InputTooLong(
                f"{prefix}input has {ids.shape[1]} tokens, the model has {limit} positions: shorten"
                " the text"
            )
        vocabulary = vocabulary_size(model) if not prefix and inner is None else None
        if vocabulary and not ids.is_floating_point() and int(ids.max()) >= vocabulary:
            raise InvalidInput(
                f"token id {int(ids.max())} is outside the model's vocabulary of {vocabulary}"
            )


def vocabulary_size(model: Any) -> int | None:
    """Rows of the input embedding; None where there is none."""
    try:
        return getattr(model.get_input_embeddings(), "num_embeddings", None)
    except NotImplementedError:  # models of several towers
        return getattr(getattr(model.config, "text_config", None), "vocab_size", None)


def _positions(model: nn.Module, config: Any, prefix: str) -> int | None:
    """How many tokens fit: the size of the position table minus RoBERTa's rows for padding."""
    text_config = getattr(config, "text_config", None)
    for holder in (config, text_config):
        for name in (
            f"max_{'target' if prefix else 'source'}_positions",
            "max_position_embeddings",
        ):
            limit = getattr(holder, name, None)
            if isinstance(limit, int):
                tables = [
                    table
                    for path, table in model.named_modules()
                    if isinstance(table, nn.Embedding)
                    and "position" in path.rpartition(".")[2]
                    and table.num_embeddings == limit
                ]
                offset = next(
                    (table.padding_idx for table in tables if table.padding_idx is not None), None
                )
                return limit if offset is None or offset == 0 else limit - offset - 1
    return None
