"""Prepare the tokens that the decoder of an encoder-decoder model reads.

Labels and target texts are shifted by the model's own function, because models differ in the first
token: BART starts with the `decoder_start_token_id` of its config, MBart with the last label, and
T5 with the padding token. Models also differ in how they replace labels of -100. With a
classification head, the model computes the decoder's input from the encoder's input.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn
from transformers import PretrainedConfig

from mixlens.errors import InvalidInput, WrongKeys

IGNORED = -100  # labels that transformers ignores in a loss


class _Read(Exception):
    """Raised to stop a forward pass at the decoder. `ids` and `mask` are the token ids and the
    attention mask that the decoder receives.
    """

    def __init__(self, ids: Any, mask: Any) -> None:
        super().__init__()
        self.ids, self.mask = ids, mask


def start_token(model: nn.Module) -> int:
    """Return the id of the decoder's start token."""
    for config in (
        getattr(model, "generation_config", None),
        model.config,
        getattr(model.config, "decoder", None),
    ):
        for name in ("decoder_start_token_id", "bos_token_id", "pad_token_id"):
            number = getattr(config, name, None)
            if isinstance(number, int):
                return number
    raise WrongKeys("This model has no decoder_start_token_id. Pass a dict with decoder_input_ids.")


def target_prefix(model: nn.Module, tokenizer: Any, ids: Sequence[int]) -> list[int]:
    """Return the tokens that the decoder reads before a target text.

    The result is empty if the tokenizer adds the start token itself (Whisper).
    """
    if begins_by_itself(tokenizer, ids[0], start_token(model)):
        return []
    shift = getattr(model, "prepare_decoder_input_ids_from_labels", None)
    try:
        first = None if shift is None else int(shift(labels=torch.tensor([list(ids)]))[0, 0])
    except (AttributeError, ValueError, TypeError):  # no start or padding token is configured
        first = None
    return [start_token(model) if first is None else first]


def begins_by_itself(tokenizer: Any, first: int, start: int) -> bool:
    """Return whether the tokenizer adds the decoder's start token to every target text."""
    prefix = getattr(tokenizer, "prefix_tokens", None) or [None]
    return bool(first == start == prefix[0])


def labels_of_texts(model: nn.Module, tokenizer: Any, texts: Any) -> Int[Tensor, "text token"]:
    """Tokenise target texts and return their labels, with -100 for padding.

    If the tokenizer adds a start token, it is dropped, because the model adds it as well.
    """
    id_lists = [
        tokenizer(text)["input_ids"] for text in ([texts] if isinstance(texts, str) else texts)
    ]
    start = start_token(model)
    id_lists = [ids[1:] if begins_by_itself(tokenizer, ids[0], start) else ids for ids in id_lists]
    width = max(map(len, id_lists))
    return torch.tensor([ids + [IGNORED] * (width - len(ids)) for ids in id_lists])


def from_labels(model: nn.Module, tensors: Mapping[str, Any], labels: Any) -> dict[str, Tensor]:
    """Return the decoder's token ids for labels [text, token], and the mask of positions that
    belong to a label.

    `tensors` are the inputs of the encoder.
    """
    if not isinstance(labels, Tensor) or labels.dim() != 2 or labels.is_floating_point():
        shape = tuple(labels.shape) if isinstance(labels, Tensor) else type(labels).__name__
        raise InvalidInput(f"labels have shape {shape}. Pass token ids of shape [text, token].")
    real = (labels != IGNORED).flip(1).cumsum(1).flip(1) > 0  # up to the last label of each text
    if not bool(real.any(1).all()):
        raise InvalidInput("A text has no label (all are -100). Drop the text or the labels.")
    ids = _shift_labels(model, tensors, labels)
    _require_visible(model, {**tensors, "labels": labels}, real)
    tensors_of_decoder = {"decoder_input_ids": ids}
    if "decoder_attention_mask" in inspect.signature(model.forward).parameters:
        tensors_of_decoder["decoder_attention_mask"] = real.long()
    elif not bool(real.all()):
        raise InvalidInput(
            f"labels have different lengths, but {type(model).__name__} does not accept a "
            "decoder_attention_mask. Record these texts one at a time."
        )
    return tensors_of_decoder


def _shift_labels(model: nn.Module, tensors: Mapping[str, Any], labels: Tensor) -> Tensor:
    shift = getattr(model, "prepare_decoder_input_ids_from_labels", None)
    if shift is None:
        return read_by_decoder(model, {**tensors, "labels": labels})
    try:
        ids: Tensor = shift(labels=labels)
    except (AttributeError, ValueError, TypeError) as error:
        raise InvalidInput(
            f"{type(model).__name__} cannot shift these labels ({error}). Pass decoder_input_ids."
        ) from error
    return ids


def _require_visible(model: nn.Module, tensors: Mapping[str, Any], real: Tensor) -> None:
    """Raise `InvalidInput` if the model hides decoder tokens that belong to a label.

    Models made of an encoder and a decoder with configs of their own hide every padding token that
    they compute from labels, and replace labels of -100 with padding tokens.
    """
    if not isinstance(getattr(model.config, "decoder", None), PretrainedConfig):
        return
    mask = _stop_at_decoder(model, tensors).mask
    if not isinstance(mask, Tensor) or mask.shape != real.shape:
        return
    hidden = (mask == 0) & real.to(mask.device)
    if bool(hidden.any()):
        text, place = hidden.nonzero()[0].tolist()
        raise InvalidInput(
            f"With these labels, {type(model).__name__} hides token {place} of the decoder (text "
            f"{text}), because it is a padding token. Pass decoder_input_ids and, to hide tokens, "
            "a decoder_attention_mask."
        )


def read_by_decoder(model: nn.Module, tensors: Mapping[str, Any]) -> Tensor:
    """Return the token ids that the model's own `forward` passes to its decoder."""
    ids = _stop_at_decoder(model, tensors).ids
    if not isinstance(ids, Tensor) or ids.is_floating_point():
        raise WrongKeys(
            f"The decoder of {type(model).__name__} receives no token ids for this input. Pass "
            "decoder_input_ids."
        )
    return ids.clone()


@torch.no_grad()
def _stop_at_decoder(model: nn.Module, tensors: Mapping[str, Any]) -> _Read:
    """Run the model's own `forward` up to its decoder, and return the arguments of the decoder."""

    def stop(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        ids = kwargs.get("input_ids", args[0] if args else None)
        raise _Read(ids, kwargs.get("attention_mask"))

    decoder: Any = model
    decoder = decoder.get_decoder()
    handle = decoder.register_forward_pre_hook(stop, with_kwargs=True)
    try:
        model(**tensors)
    except _Read as reached:
        return reached
    except (ValueError, TypeError, RuntimeError, LookupError) as error:
        raise WrongKeys(
            f"{type(model).__name__} does not compute a decoder input from these inputs "
            f"({error}). Pass decoder_input_ids."
        ) from error
    finally:
        handle.remove()
    return _Read(None, None)


def repeats_the_source(model: nn.Module) -> bool:
    """Return whether the model computes the decoder's input from the encoder's input, as models for
    sequence classification and question answering do.
    """
    generates = getattr(model, "can_generate", lambda: False)()
    ends = ("ForSequenceClassification", "ForQuestionAnswering")
    return not generates and type(model).__name__.endswith(ends)
