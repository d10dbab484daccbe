"""Prepare a text or a dict of tensors for a model: check the tensors, move left padding to the
right, and move the tensors to the model's device.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Mapping, MutableMapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from mixlens.errors import (
    EmptyInput,
    InvalidInput,
    MissingTokenizer,
    MixlensError,
    WrongKeys,
    about,
)
from mixlens.model.placement import entry_device, sent
from mixlens.text.decoder_inputs import (
    from_labels,
    read_by_decoder,
    repeats_the_source,
    start_token,
    target_prefix,
)
from mixlens.text.encoding import Encoding, encode_texts, pad_sequences, token_rows
from mixlens.text.input_checks import (
    check_names,
    check_numbers,
    check_range,
    check_shapes,
    padding_token,
    takes_decoder_ids,
)
from mixlens.text.padding import masks_more_than_padding, real_tokens_first, row_lengths
from mixlens.text.tokens import Produced, TokenRow

RAW_INPUTS = ("images", "audio", "videos", "text")
"""Inputs that a processor converts to tensors."""

Text = str | tuple[str, str]
"""One text, or a pair: two segments, or source and target for an encoder-decoder model."""


@dataclass(frozen=True)
class Prepared:
    """Stores inputs that are ready for the model. For text, `rows` and `decoder_rows` contain the
    tokens of the main input and of the decoder. For a continued prompt, `produced` contains the
    token that each position produced.
    """

    tensors: dict[str, Any]
    rows: Sequence[TokenRow] | None
    decoder_rows: Sequence[TokenRow] | None
    produced: Sequence[Produced] | None = None
    masks_more_than_padding: bool = field(kw_only=True)  # masks of token pairs, or with holes
    seconds: Sequence[float] | None = field(default=None, kw_only=True)  # lengths of the audio


def prepare_inputs(
    model: nn.Module, tokenizer: Any, inputs: Any, encodings: Sequence[Encoding] | None = None
) -> Prepared:
    """Convert a text, a list of texts or a dict of tensors to model inputs. Other types raise an
    error.

    `encodings` are the tokenised texts, if they are already known.
    """
    if isinstance(inputs, Mapping):
        return _from_tensors(model, tokenizer, dict(inputs))
    texts = texts_of(inputs)
    for number, text in enumerate(texts):
        try:
            check_text(text)
        except MixlensError as error:
            raise about(f"text {number}", error) if len(texts) > 1 else error from None
    if tokenizer is None:
        raise MissingTokenizer(
            "The model has no tokenizer, so it cannot read a text. Add one, or pass "
            "tensors instead of the text."
        )
    return _from_texts(model, tokenizer, texts, encodings)


def texts_of(inputs: Any) -> list[Any]:
    """Return the passed texts as a list. Their contents are not checked."""
    if isinstance(inputs, str) or is_pair(inputs):
        return [inputs]
    advice = "Pass a text, a list of texts or a dict of input tensors"
    if isinstance(inputs, AbstractSet):
        raise InvalidInput(f"A set has no order. {advice}.")
    if isinstance(inputs, tuple):
        raise InvalidInput(
            f"A tuple of {len(inputs)} entries is not a pair of texts. "
            "Pass several texts as a list."
        )
    if (
        isinstance(inputs, Tensor)
        or getattr(getattr(inputs, "dtype", None), "kind", "O") in "biufc"
    ):
        raise InvalidInput(
            f"{type(inputs).__name__} is not a text. {advice}, such as {{'input_ids': ids}}."
        )
    if hasattr(inputs, "columns"):
        raise InvalidInput(
            "A table is not a text. Pass the column that contains the texts, as a list."
        )
    if isinstance(inputs, (bytes, bytearray)) or not hasattr(inputs, "__iter__"):
        raise InvalidInput(f"{type(inputs).__name__} is not a text. {advice}.")
    texts = list(inputs)
    if not texts:
        raise EmptyInput("No text was passed. Pass at least one.")
    return texts


def check_text(text: Any) -> None:
    """Raise an error unless this is a non-empty string, or a pair of strings, that UTF-8 can
    encode.
    """
    if not isinstance(text, str) and not is_pair(text):
        hint = ". Pass token ids as {'input_ids': ids}" if isinstance(text, int) else ""
        raise InvalidInput(
            f"{type(text).__name__} is not a text. Pass a string or a pair of strings{hint}"
        )
    for part in (text,) if isinstance(text, str) else text:
        try:
            part.encode()
        except UnicodeEncodeError as error:
            raise InvalidInput(
                f"Character {error.start} of the text is a lone surrogate, as in text that "
                "was decoded from bytes other than UTF-8. Use the correct encoding."
            ) from None
    if not (text if isinstance(text, str) else text[0]).strip():
        raise EmptyInput("The text is empty. Pass at least one word.")


def is_pair(text: Any) -> bool:
    """Return whether this is a tuple of two strings."""
    return (
        isinstance(text, tuple) and len(text) == 2 and all(isinstance(part, str) for part in text)
    )


def _from_texts(
    model: nn.Module,
    tokenizer: Any,
    texts: Sequence[Text],
    encodings: Sequence[Encoding] | None,
) -> Prepared:
    classified = takes_decoder_ids(model) and repeats_the_source(model)
    translated = takes_decoder_ids(model) and not classified
    firsts = [text if isinstance(text, str) else text[0] for text in texts]
    pairs = [None if isinstance(text, str) else text[1] for text in texts]
    if any(pair is None for pair in pairs) != all(pair is None for pair in pairs):
        raise InvalidInput(
            "Some texts are pairs and others are not. Pass only pairs or only single texts."
        )
    seconds = [pair for pair in pairs if pair is not None]
    text_encodings = encodings or encode_texts(
        tokenizer, firsts, None if translated or not seconds else seconds
    )
    accepted = inspect.signature(model.forward).parameters
    tensors = pad_sequences(text_encodings, tokenizer, set(accepted))
    decoder_tokens: Sequence[TokenRow] | None = None
    if translated:
        if seconds:
            targets = encode_texts(tokenizer, seconds, None, as_target=True)
            shifted = [_shift_target(model, tokenizer, encoding) for encoding in targets]
        else:
            shifted = [_begun(model) for _ in texts]
        decoder = pad_sequences(shifted, tokenizer, {"attention_mask"})
        tensors["decoder_input_ids"] = decoder["input_ids"]
        tensors["decoder_attention_mask"] = decoder["attention_mask"]
        decoder_tokens = _label_tokens(tokenizer, shifted, seconds or [""] * len(shifted))
    elif classified:
        tensors = _with_decoder_ids(model, tensors, None)
        decoder_tokens = _rows(tokenizer, tensors, "decoder_")
    tensors = normalise_inputs(model, tensors)
    whole = [
        text if pair is None or translated else f"{text} {pair}"
        for text, pair in zip(firsts, pairs, strict=True)
    ]
    return Prepared(
        tensors,
        _label_tokens(tokenizer, text_encodings, whole),
        decoder_tokens,
        masks_more_than_padding=False,  # our own masks need no check
    )


def _shift_target(model: nn.Module, tokenizer: Any, target: Encoding) -> Encoding:
    """Return the decoder input for a tokenised target text."""
    before = target_prefix(model, tokenizer, target["input_ids"])
    places = [(0, 0)] * len(before) + list(target.get("offset_mapping", []))[:-1]
    return {"input_ids": [*before, *target["input_ids"][:-1]], "offset_mapping": places}


def _begun(model: nn.Module) -> Encoding:
    return {"input_ids": [start_token(model)], "offset_mapping": [(0, 0)]}


def _label_tokens(
    tokenizer: Any, encodings: Sequence[Encoding], texts: Sequence[str]
) -> list[TokenRow]:
    ids, offsets = (
        [encoding["input_ids"] for encoding in encodings],
        [encoding.get("offset_mapping") for encoding in encodings],
    )
    return token_rows(tokenizer, ids, texts, offsets)


def _from_tensors(model: nn.Module, tokenizer: Any, inputs: dict[str, Any]) -> Prepared:
    tensors = {
        name: _copy_value(_to_check(as_tensor(name, value)))
        for name, value in inputs.items()
        if value is not None
    }
    if "past_key_values" in tensors:
        raise WrongKeys(
            "past_key_values is not supported, because a recording needs the whole sequence. "
            "Pass all tokens."
        )
    labels = tensors.pop("labels", None)
    if takes_decoder_ids(model) and not any(name.startswith("decoder_input") for name in tensors):
        tensors = _with_decoder_ids(model, tensors, labels)
    tensors = normalise_inputs(model, tensors)
    return Prepared(
        tensors,
        _rows(tokenizer, tensors, ""),
        _rows(tokenizer, tensors, "decoder_"),
        masks_more_than_padding=masks_more_than_padding(tensors),
    )


def _with_decoder_ids(model: nn.Module, tensors: dict[str, Any], labels: Any) -> dict[str, Any]:
    """Add the decoder's token ids to the encoder inputs.

    The ids are computed from the labels, or from the encoder's input if the model has a
    classification head. Without labels, the decoder reads only its start token.
    """
    if repeats_the_source(model):
        tensors = normalise_inputs(model, tensors)
        tensors["decoder_input_ids"] = read_by_decoder(model, tensors)
        if "attention_mask" in tensors:
            tensors.setdefault("decoder_attention_mask", tensors["attention_mask"])
        return tensors
    if labels is not None:
        tensors = normalise_inputs(model, tensors)
        return {**from_labels(model, tensors, sent(labels, entry_device(model))), **tensors}
    batch_sizes = (value.shape[0] for value in tensors.values() if isinstance(value, Tensor))
    tensors["decoder_input_ids"] = torch.full((next(batch_sizes, 1), 1), start_token(model))
    return tensors


def _copy_value(value: Any) -> Any:
    """Return a deep copy of the tensors, so that the caller can write to the originals later."""
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, (list, tuple)):
        items = map(_copy_value, value)
        is_named_tuple = hasattr(value, "_fields")
        return type(value)(*items) if is_named_tuple else type(value)(items)
    if isinstance(value, MutableMapping):  # such as the output of an encoder, which keeps its class
        inner = copy.copy(value)
        for name, each in value.items():
            inner[name] = _copy_value(each)
        return inner
    return value


def _to_check(value: Any) -> Any:
    """Move ids and token masks to the CPU, because each check of a GPU tensor would wait for the
    GPU.
    """
    if isinstance(value, Tensor) and value.dim() == 2 and not value.is_floating_point():
        return value.cpu()
    return value


def as_tensor(name: str, value: Any) -> Any:
    """Convert an input to a batched tensor if it contains numbers."""
    is_list = isinstance(value, (list, tuple)) and name.endswith(("ids", "mask", "labels"))
    if is_list or (hasattr(value, "__array__") and not isinstance(value, Tensor)):
        try:
            value = torch.as_tensor(value)
        except (ValueError, TypeError, RuntimeError) as error:
            raise InvalidInput(
                f"{name} is not a batch of numbers ({error}). Pad sequences of different "
                "lengths and pass an attention_mask."
            ) from error
    if not isinstance(value, Tensor) and name.endswith(("ids", "mask", "embeds", "labels")):
        raise InvalidInput(f"{name} is {type(value).__name__}. Pass a tensor of numbers.")
    if isinstance(value, Tensor) and value.dim() == 1 and name.endswith(("ids", "mask")):
        value = value[None]
    return value


def _rows(tokenizer: Any, tensors: Mapping[str, Any], prefix: str) -> list[TokenRow] | None:
    ids = tensors.get(prefix + "input_ids")
    if ids is None or ids.dim() != 2:  # several codebooks per token have no common label
        return None
    lengths = row_lengths(tensors, prefix) or [int(ids.shape[1])] * int(ids.shape[0])
    if len(lengths) != len(ids):  # several sequences of codes for each audio (MusicGen)
        return None
    real = [text_ids[:length] for text_ids, length in zip(ids.tolist(), lengths, strict=True)]
    unknown = [None] * len(real)
    return token_rows(tokenizer, real, unknown, unknown)


def normalise_inputs(model: nn.Module, tensors: dict[str, Any]) -> dict[str, Any]:
    """Check the inputs, move left padding to the right, and convert the tensors to the model's
    device and precision.
    """
    check_names(model, tensors)
    check_numbers(tensors)
    check_shapes(model, tensors)
    tensors = real_tokens_first(tensors, functools.partial(padding_token, model))
    check_range(model, tensors)
    dtype, device = next(model.parameters()).dtype, entry_device(model)
    normalised = {}
    for name, value in tensors.items():
        if isinstance(value, Tensor):
            value = sent(value, device)
            value = (
                value.clone() if value.is_inference() else value
            )  # gradients reject such tensors
            if value.is_floating_point() and name != "attention_mask":
                value = value.to(dtype)
            elif name.endswith("ids") and value.dtype not in (torch.int32, torch.int64):
                value = value.long()
        normalised[name] = value
    return normalised


def is_raw(raw_inputs: Any) -> bool:
    """Return whether the inputs must first be converted to tensors by a processor."""
    if isinstance(raw_inputs, Mapping):
        return bool(set(RAW_INPUTS) & set(raw_inputs))
    return _is_picture(raw_inputs) or (
        isinstance(raw_inputs, list)
        and bool(raw_inputs)
        and all(_is_picture(part) for part in raw_inputs)
    )


def _is_picture(value: Any) -> bool:
    """Return whether this is a PIL image. The test does not import Pillow, which may not be
    installed.
    """
    return type(value).__module__.startswith("PIL.") and hasattr(value, "convert")
