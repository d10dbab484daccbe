"""Check every input tensor against the model and the other inputs: name, dtype, shape and range.

The checks use the sizes of the model's own embeddings and masks. Without these checks, a mask that
is shorter than its tokens would produce only part of a map, and an id outside the vocabulary would
raise an error inside PyTorch.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from mixlens.errors import EmptyInput, InputTooLong, InvalidInput, WrongKeys
from mixlens.model.module_walk import parts_of
from mixlens.model.plain_shards import plain_shard
from mixlens.model.rotary import may_be_extended

TEXT_INPUTS = (
    "input_ids",
    "attention_mask",
    "token_type_ids",
    "position_ids",
    "decoder_input_ids",
    "decoder_attention_mask",
    "decoder_position_ids",
)
_IDS = ("input_ids", "token_type_ids", "position_ids")
_STACKS = (("", "encoder"), ("decoder_", "decoder"))
"""The prefix of a stack's input names, and the name of its section in the config."""


def check_names(model: nn.Module, tensors: Mapping[str, Any]) -> None:
    """Raise an error unless all names are inputs of the model and the required input is present."""
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
                f"Unknown input {name!r} of {type(model).__name__}. Choose from: "
                f"{', '.join(takes)}."
            )
    main = [name for name in main_inputs(model) if name in accepted]
    instead = {"inputs_embeds", "encoder_outputs"}
    if config_is_pair(model):  # its encoder may read text or audio (SeamlessM4T)
        instead |= {"input_features", "input_values"}
    if main and not {*main, *instead} & set(tensors):
        raise WrongKeys(
            f"{type(model).__name__} needs {main[0]!r}, but got {', '.join(tensors) or 'nothing'}. "
            f"Pass {main[0]!r}."
        )


def main_inputs(model: nn.Module) -> list[str]:
    """Return the names of a model's main inputs. Most models have a single main input."""
    main = getattr(model, "main_input_name", "input_ids")
    return [main] if isinstance(main, str) else list(main)


def check_numbers(tensors: Mapping[str, Any]) -> None:
    """Check that ids are integers, that token masks contain only ones and zeros, and that other
    inputs are finite.
    """
    for name, value in tensors.items():
        if not isinstance(value, Tensor):
            continue
        if value.numel() == 0:
            raise EmptyInput(
                f"{name} is empty (shape {tuple(value.shape)}). Pass at least one token."
            )
        if name.removeprefix("decoder_") in _IDS:
            if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
                kind = str(value.dtype).removeprefix("torch.")
                raise InvalidInput(f"{name} has dtype {kind}. Pass integers (int64).")
        elif name.endswith("attention_mask"):
            if value.dim() == 2 and not bool(((value == 0) | (value == 1)).all()):
                raise InvalidInput(
                    f"{name} contains {value[(value != 0) & (value != 1)][0].item()}. Pass 1 "
                    "for tokens and 0 for padding."
                )
        elif value.is_floating_point() and not name.endswith("mask"):
            if not bool(value.isfinite().all()):
                raise InvalidInput(f"{name} contains NaN or infinity. Pass finite numbers.")


def check_shapes(model: nn.Module, tensors: Mapping[str, Any]) -> None:
    """Check that batch sizes and lengths agree. Masks, types and positions must match their
    tokens.
    """
    books = _codebooks(model)
    batches = {}
    for prefix, _ in _STACKS:
        names = [prefix + name for name in ("input_ids", "inputs_embeds")]
        main = next((name for name in names if isinstance(tensors.get(name), Tensor)), None)
        if main is None:
            continue
        if tensors[main].dim() < 2:
            raise InvalidInput(
                f"{main} has the shape {tuple(tensors[main].shape)}. Pass a tensor of shape"
                " [text, token]."
            )
        batch, width = tensors[main].shape[:2]
        batches[main] = batch
        for name in ("attention_mask", "token_type_ids", "position_ids"):
            value = tensors.get(prefix + name)
            if isinstance(value, Tensor) and not (
                _fits(name, value, batch, width) or _fits(name, value, batch // books, width)
            ):
                raise InvalidInput(
                    f"{prefix}{name} has the shape {tuple(value.shape)}, but {main} has "
                    f"{tuple(tensors[main].shape)}. Pass one number for each token."
                )
    if len(batches) == 2:
        (main, texts), (other, count) = batches.items()
        if count not in (texts, texts * books):
            raise InvalidInput(
                f"{main} has {texts} texts, but {other} has {count}. Pass the same number of texts."
            )


def _codebooks(model: nn.Module) -> int:
    """Return the number of codebooks.

    In music models, each text has one sequence of codes per codebook.
    """
    config: Any = model.config
    holders: tuple[Any, ...] = (config, getattr(config, "decoder", None))
    return next((holder.num_codebooks for holder in holders if hasattr(holder, "num_codebooks")), 1)


def _fits(name: str, value: Tensor, batch: int, width: int) -> bool:
    """Return whether the shape of a mask, token types or positions matches the tokens.

    The tensor may have one row per text, one row for all texts, or one number per pair of tokens.
    """
    shape = tuple(value.shape)
    if name == "token_type_ids":
        return shape[:2] == (batch, width)
    if name == "position_ids":
        plain = len(shape) <= 2 or shape[:2] == (batch, width)
        return shape[:2] in ((batch, width), (1, width)) if plain else shape[-2:] == (batch, width)
    if len(shape) == 2:
        return shape == (batch, width)
    return bool(shape) and shape[-1] == width and shape[0] in (1, batch)


def check_range(model: nn.Module, tensors: Mapping[str, Any]) -> None:
    """Check that there are no more tokens than positions, and that every id is within its embedding
    table.
    """
    for prefix, _ in _STACKS:
        ids = tensors.get(prefix + "input_ids", tensors.get(prefix + "inputs_embeds"))
        if not isinstance(ids, Tensor) or ids.dim() != (3 if ids.is_floating_point() else 2):
            continue  # several codebooks per token have a table each
        config: Any = model.config
        limit = position_limit(model, prefix)
        if limit is not None and ids.shape[1] > limit:
            rotary = may_be_extended(getattr(config, "text_config", config))
            more = ", or raise max_position_embeddings in its configuration (rotary positions"
            more += " have no table)"
            raise InputTooLong(
                f"{prefix}input has {ids.shape[1]} tokens, but the model has {limit} positions."
                f" Shorten the text{more if rotary else ''}."
            )
        if not ids.is_floating_point():
            check_token_ids(prefix + "input_ids", ids, _vocabulary(model, prefix))
        for name, table, words in (
            ("token_type_ids", _types, "the model's token types, of which there are"),
            ("position_ids", _largest_table, "the model's table of positions, which has"),
        ):
            value = tensors.get(prefix + name)
            if isinstance(value, Tensor) and value.dim() == 2:
                _inside(prefix + name, f"{prefix}{name}: the number", value, table(model), words)


def check_answer_ids(model: nn.Module, ids: Sequence[int]) -> None:
    """Check the token ids of an answer.

    The last id is never an input of the model, so the checks of model inputs do not cover it.
    """
    prefix = "decoder_" if takes_decoder_ids(model) else ""
    check_token_ids("answer", ids, _vocabulary(model, prefix))


def check_token_ids(name: str, ids: Sequence[int] | Tensor, words: int | None = None) -> None:
    """Check that no token id is negative or outside a vocabulary of `words` tokens."""
    _inside(name, "token id", ids, words, "the model's vocabulary of")


def _vocabulary(model: nn.Module, prefix: str) -> int | None:
    """Return the vocabulary size of a stack.

    Return None if the stack's section of the config describes a whole model.
    """
    inner = getattr(model.config, dict(_STACKS)[prefix], None) if config_is_pair(model) else None
    return vocabulary_size(model, decoder=bool(prefix)) if inner is None else None


def _inside(
    name: str, what: str, ids: Sequence[int] | Tensor, size: int | None, table: str
) -> None:
    if isinstance(ids, Tensor):
        lowest, highest = int(ids.min()), int(ids.max())
    else:  # which may be too large for a tensor
        lowest, highest = min(ids), max(ids)
    if lowest < 0:
        raise InvalidInput(f"{name} contains {lowest}. Pass non-negative integers.")
    if size and highest >= size:
        raise InvalidInput(f"{what} {highest} is outside {table} {size}. Pass at most {size - 1}.")


def config_is_pair(model: nn.Module) -> bool:
    """Return whether the model is an encoder-decoder model according to its config."""
    return bool(getattr(model.config, "is_encoder_decoder", False))


def takes_decoder_ids(model: nn.Module) -> bool:
    """Return whether the model is an encoder-decoder model whose decoder reads token ids.

    Detectors and forecasters are encoder-decoder models too, but their decoders do not read token
    ids.
    """
    return config_is_pair(model) and (
        "decoder_input_ids" in inspect.signature(model.forward).parameters
    )


def padding_token(model: nn.Module, prefix: str = "") -> int | None:
    """Return the id of the padding token, or None if the config has no such id in the vocabulary.

    Classifiers need this id to find the last token that is not padding.
    """
    config: Any = model.config
    text = _text_config(config, prefix)
    size = _vocabulary(model, prefix) or vocabulary_size(model)
    for holder in (text, config):
        token = getattr(holder, "pad_token_id", None)
        if isinstance(token, int) and token >= 0 and (size is None or token < size):
            return token
    return None


def _text_config(config: Any, prefix: str) -> Any:
    """Return the config for the text tokens. MusicGen has two: one for words and one for audio
    codes.
    """
    if not hasattr(config, "get_text_config"):
        return config
    try:
        return config.get_text_config()
    except ValueError:  # transformers: several valid text configs
        return getattr(config, "decoder" if prefix else "text_encoder", config)


def _types(model: nn.Module) -> int | None:
    size = getattr(model.config, "type_vocab_size", None)
    return size if isinstance(size, int) and size > 0 else None


def _largest_table(model: nn.Module) -> int | None:
    return max((table.num_embeddings for table in _position_tables(model)), default=None)


def _position_tables(model: nn.Module) -> list[nn.Embedding]:
    return [
        table
        for path, table in model.named_modules()
        if isinstance(table, nn.Embedding) and "position" in path.rpartition(".")[2]
    ]


def position_limit(model: nn.Module, prefix: str = "") -> int | None:
    """Return the maximum number of positions, without the entries of the position table that
    RoBERTa reserves.

    Return None if there is no table and raising the limit in the config would change the position
    encoding (dynamic NTK, longrope, YaRN), because transformers runs such models on inputs of any
    length.
    """
    config: Any = model.config
    inner = getattr(config, dict(_STACKS).get(prefix, ""), None) if config_is_pair(model) else None
    config = inner if inner is not None and hasattr(inner, "max_position_embeddings") else config
    names = ["max_position_embeddings"]
    if config_is_pair(model):
        names.insert(0, f"max_{'target' if prefix else 'source'}_positions")
    for holder in (getattr(config, "text_config", None), config):
        for name in names:
            limit = getattr(holder, name, None)
            if isinstance(limit, int) and limit > 0:  # XLNet uses -1 for no limit
                if may_be_extended(holder) is False:
                    return None
                reserved = [
                    table.padding_idx
                    for table in parts_of(model)
                    if isinstance(table, nn.Embedding) and table.num_embeddings == limit
                    if table.padding_idx and table in _position_tables(model)
                ]
                return limit - reserved[0] - 1 if reserved else limit
    return None


def is_plain_text(inputs: Mapping[str, Any]) -> bool:
    """Return whether the inputs are only token ids, masks, types and positions."""
    return "input_ids" in inputs and set(inputs) <= set(TEXT_INPUTS)


def vocabulary_size(model: Any, *, decoder: bool = False) -> int | None:
    """Return the number of rows of the input embedding, or None if there is none."""
    try:
        holder = model.get_decoder() if decoder else model
        table = holder.get_input_embeddings()
        if plain_shard(getattr(table, "weight", None)) is not None:  # it may count its own rows
            return getattr(_text_config(model.config, "decoder_" * decoder), "vocab_size", None)
        return getattr(table, "num_embeddings", None)
    except (NotImplementedError, AttributeError):  # models with several towers
        text = getattr(model.config, "text_config", None)
        return None if decoder else getattr(text, "vocab_size", None)
