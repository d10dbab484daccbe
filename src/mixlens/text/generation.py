"""Generate a continuation, after checking the options."""

from __future__ import annotations

import contextlib
import copy
import inspect
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationConfig

from mixlens.errors import (
    InputTooLong,
    InvalidInput,
    MixlensError,
    NonFiniteActivations,
    UnsupportedModel,
    in_short,
)
from mixlens.text.encoding import token_row
from mixlens.text.generation_options import check_options
from mixlens.text.input_checks import position_limit, takes_decoder_ids
from mixlens.text.inputs import made_ready
from mixlens.text.plurals import counted

_NEW_TOKENS = 20


def generated(
    model: Any, ids: Sequence[int], options: Mapping[str, Any], tensors: Any = None
) -> list[int]:
    """Return the prompt's ids (of a decoder: its start token) and the tokens that the model
    generates after them, its own choice at every step by default.
    """
    if not getattr(model, "can_generate", lambda: False)():
        raise UnsupportedModel(
            f"{type(model).__name__} cannot generate text. Use a causal or encoder-decoder"
            " language model with its head."
        )
    options = _checked(model, len(ids), options)
    if tensors is None:
        tensors = made_ready(model, with_mask(model, {"input_ids": torch.tensor([list(ids)])}))
    decodes = takes_decoder_ids(model)
    try:
        with torch.no_grad(), _tokens_read(model, decodes) as reads:
            made = model.generate(**tensors, **options)
    except MixlensError:
        raise
    except (ValueError, TypeError, AttributeError, ArithmeticError, LookupError) as error:
        raise InvalidInput(
            f"generate of {type(model).__name__} refuses these options: {in_short(error)}"
        ) from error
    rows = getattr(made, "sequences", made)
    if len(rows) != 1:
        raise InvalidInput(
            f"{len(rows)} continuations were generated: leave out num_return_sequences, and look at"
            " one at a time"
        )
    row: list[int] = rows[0].tolist()
    before = row[:1] if decodes else list(ids)
    if row[: len(before)] == before and len(row) == len(before):
        raise InvalidInput("The model generated nothing. Allow more tokens with max_new_tokens.")
    _require_read(model, reads, before, row)
    return row


@contextlib.contextmanager
def _tokens_read(model: nn.Module, decodes: bool) -> Iterator[list[Tensor | None]]:
    """Collect the token ids of every forward pass."""
    reads: list[Tensor | None] = []
    name = "decoder_input_ids" if decodes else "input_ids"

    def keep(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        reads.append(kwargs.get(name))

    handle = model.register_forward_pre_hook(keep, with_kwargs=True)
    try:
        yield reads
    finally:
        handle.remove()


def _require_read(
    model: nn.Module, reads: Sequence[Tensor | None], before: list[int], row: list[int]
) -> None:
    """Raise unless the model read the tokens of `row` but the last, beginning with `before`."""
    ids = [read for read in reads if read is not None]
    is_known = bool(ids) and len(ids) == len(reads) and row[: len(before)] == before
    beams = max((len(read) for read in ids), default=0)
    if is_known and beams == 1:  # a step reads one token, or all of them without a cache
        last = len(row) - 1
        whole = ids[-1] if ids[-1].shape[1] >= last else torch.cat(ids, 1)
        is_known = whole[0, :last].tolist() == row[:last]
    elif is_known:  # beams change places, but all of them begin alike
        first = next(iter(ids))
        width = min(len(before), int(first.shape[1]))
        is_known = bool((first[:, :width] == first.new_tensor(before[:width])).all())
    if not is_known:
        raise UnsupportedModel(
            f"generate of {type(model).__name__} lets the model read other tokens than it returns,"
            " so that no recording of them would be of the same run. Generate by yourself, and pass"
            " the tokens as answer."
        )


def without_end(model: Any, tokenizer: Any, new: Sequence[int]) -> list[int]:
    """Return generated ids without the end-of-turn and other special tokens at their end.

    Ids of special tokens alone are returned as they are.
    """
    ends = getattr(model.generation_config, "eos_token_id", None)
    stops = set(ends if isinstance(ends, list) else [ends])
    special = token_row(tokenizer, new).special or (False,) * len(new)
    count = len(new)
    while count and (special[count - 1] or new[count - 1] in stops):
        count -= 1
    return list(new[: count or None])


def with_mask(model: nn.Module, tensors: dict[str, Any]) -> dict[str, Any]:
    """Token ids with masks that leave out none of them, if the model takes masks."""
    accepted = inspect.signature(model.forward).parameters
    for name in list(tensors):
        mask = name.replace("input_ids", "attention_mask")
        if mask in accepted:
            tensors[mask] = torch.ones_like(tensors[name])
    return tensors


def _checked(model: Any, tokens: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of `generate`: the likeliest token at every step, unless they say otherwise."""
    options = dict(given)
    config = options.get("generation_config")
    check_options(model, options, config)
    if config is None:
        unsaid = options
        if not options.keys() & {"max_new_tokens", "max_length", "stopping_criteria"}:
            options["max_new_tokens"] = _NEW_TOKENS
    elif isinstance(config, GenerationConfig):
        config = options["generation_config"] = copy.deepcopy(config)
        unsaid = vars(config)
    else:
        raise InvalidInput(
            f"generation_config is a GenerationConfig of transformers, not {type(config).__name__}"
        )
    _check_lengths(model, tokens, options)
    options["logits_processor"] = [*(options.get("logits_processor") or ()), _numbers_only]
    if unsaid.get("do_sample") is None:
        unsaid["do_sample"] = False
    if model.generation_config.pad_token_id is None and unsaid.get("pad_token_id") is None:
        ends = model.generation_config.eos_token_id
        unsaid["pad_token_id"] = ends[0] if isinstance(ends, list) else ends
    return options


def _numbers_only(ids: Any, logits: Tensor) -> Tensor:
    """The logits of one step. Of NaN, `generate` would make a token."""
    if logits.isnan().any():
        raise NonFiniteActivations(
            "the model's logits are NaN, so it generates nothing: check the weights of its head"
        )
    return logits


def _check_lengths(model: nn.Module, tokens: int, options: dict[str, Any]) -> None:
    """Raises `InvalidInput` if what the options allow is not a number of tokens, or has no room."""
    decodes = takes_decoder_ids(model)
    read = 1 if decodes else tokens
    config = options.get("generation_config")
    for name, before in (("max_new_tokens", 0), ("max_length", read)):  # the first one counts
        said = options if config is None or options.get(name) is not None else vars(config)
        if said.get(name) is None:
            continue
        said[name] = count = _whole_number(name, said[name])
        if count > before:  # else `generate` refuses it
            require_room(model, "decoder_" if decodes else "", read, count - before)
        return


def _whole_number(name: str, given: Any) -> int:
    try:
        if isinstance(given, bool):
            raise TypeError
        count = operator.index(given)
    except TypeError:
        raise InvalidInput(f"{name}={given!r}: a whole number is needed") from None
    if count < 1:
        raise InvalidInput(f"{name}={count}: at least one token must be generated")
    return count


def require_room(model: nn.Module, prefix: str, prompt: int, more: int) -> None:
    """Raises `InputTooLong` if a continuation of this many tokens has no room. Its last token is
    produced, not read.
    """
    limit = position_limit(model, prefix)
    if limit is None or prompt + more - 1 <= limit:
        return
    room = limit - prompt + 1
    if room < 1:
        raise InputTooLong(
            f"the prompt has {counted(prompt, 'token')}, the model has {limit} positions: shorten"
            " the prompt"
        )
    if prefix:
        raise InputTooLong(
            f"a continuation of {counted(more, 'token')} does not fit the decoder's {limit}"
            f" positions: it may have up to {room}"
        )
    raise InputTooLong(
        f"a prompt of {counted(prompt, 'token')} and a continuation of {more} do not fit the"
        f" model's {limit} positions: the continuation may have up to {room}"
    )
