"""Check the options of `generate`, and generate a continuation.

The allowed options change how the next token is chosen from the logits, when generation stops, or
which values are returned. Unknown options raise an error, because they could reach the model's
`forward` (`inputs_embeds`, `past_key_values`). Options with a second model, a second prompt or a
quantised cache always raise an error.
"""

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
    format_count,
    in_short,
)
from mixlens.model.distributed import require_same
from mixlens.text.decoder_inputs import start_token
from mixlens.text.encoding import token_row
from mixlens.text.input_checks import position_limit, takes_decoder_ids
from mixlens.text.inputs import normalise_inputs

_NEW_TOKENS = 20


def generate_ids(
    model: Any, ids: Sequence[int], options: Mapping[str, Any], tensors: Any = None
) -> list[int]:
    """Return the token ids of the prompt (for a decoder, its start token), followed by the
    generated tokens.

    The model uses greedy search unless `options` change this.
    """
    generated, reads = _run(model, ids, options, tensors)
    before = generated[:1] if takes_decoder_ids(model) else list(ids)
    if generated[: len(before)] == before and len(generated) == len(before):
        raise InvalidInput("The model generated nothing. Allow more tokens with max_new_tokens.")
    _require_read(model, reads, before, generated)
    return generated


def generate_by_decoder(
    model: Any, ids: Sequence[int], options: Mapping[str, Any], tensors: Any
) -> tuple[list[int], list[int]]:
    """Return the decoder's start tokens, and the tokens that the decoder generates after them.

    Whisper starts with several tokens (language, task), which `generate` does not return. These
    start tokens are read from the decoder's first forward pass.
    """
    generated, reads = _run(model, ids, options, tensors)
    decoder_reads = [
        step_ids[0].tolist() for step_ids in reads if step_ids is not None and len(step_ids) == 1
    ]
    start = start_token(model)
    begins = [number for number, step_ids in enumerate(decoder_reads) if step_ids[0] == start]
    if generated[:1] == [start] or not begins or len(decoder_reads) != len(reads):
        _require_read(model, reads, generated[:1], generated)
        if len(generated) < 2:
            raise InvalidInput("The model generated nothing. Allow more tokens.")
        return generated[:1], generated[1:]
    first = decoder_reads[begins[-1]]
    step_ids = [token for step in decoder_reads[begins[-1] + 1 :] for token in step]
    detects_language = begins[:-1] in ([], [0]) and decoder_reads[begins[0]] in (first, [start])
    if not generated or not detects_language or step_ids not in (generated, generated[:-1]):
        raise UnsupportedModel(
            f"{type(model).__name__}.generate split the audio into several windows, or read tokens "
            "that it did not return. Pass shorter audio and turn timestamps off, or pass the "
            "transcript as answer."
        )
    return first, generated


def require_generation(model: Any) -> None:
    """Raise an error if the model cannot generate text."""
    if not getattr(model, "can_generate", lambda: False)():
        raise UnsupportedModel(
            f"{type(model).__name__} cannot generate text. Use a causal or encoder-decoder"
            " language model with its head."
        )


def _run(
    model: Any, ids: Sequence[int], options: Mapping[str, Any], tensors: Any
) -> tuple[list[int], list[Tensor | None]]:
    """Run `generate`. Return its token ids, and the token ids that each forward pass read."""
    require_generation(model)
    options = _check_options(model, len(ids), options)
    if tensors is None:
        tensors = normalise_inputs(
            model, with_mask(model, {"input_ids": torch.tensor([list(ids)])})
        )
    decodes = takes_decoder_ids(model)
    random_state = torch.get_rng_state() if options.get("do_sample") else None
    require_same(prompt=tensors, options=options, **{"random states": random_state})
    try:
        with torch.no_grad(), _tokens_read(model, decodes) as reads:
            output = model.generate(**tensors, **options)
    except MixlensError:
        raise
    except (ValueError, TypeError, AttributeError, ArithmeticError, LookupError) as error:
        raise InvalidInput(
            f"{type(model).__name__}.generate rejects these options ({in_short(error)}). "
            "Change the options."
        ) from error
    sequences = getattr(output, "sequences", output)
    if len(sequences) != 1:
        raise InvalidInput(
            f"generate returned {len(sequences)} continuations. Drop num_return_sequences, and "
            "measure one at a time."
        )
    generated: list[int] = sequences[0].tolist()
    return generated, reads


@contextlib.contextmanager
def _tokens_read(model: nn.Module, decodes: bool) -> Iterator[list[Tensor | None]]:
    """Context that collects the token ids that each forward pass reads."""
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
    model: nn.Module, reads: Sequence[Tensor | None], before: list[int], generated: list[int]
) -> None:
    """Raise an error unless `generated` starts with `before`, and the model read all of its tokens
    except the last.
    """
    ids = [step_ids for step_ids in reads if step_ids is not None]
    is_known = bool(ids) and len(ids) == len(reads) and generated[: len(before)] == before
    beams = max((len(step_ids) for step_ids in ids), default=0)
    if is_known and beams == 1:  # a step reads one token, or all of them without a cache
        last = len(generated) - 1
        whole = ids[-1] if ids[-1].shape[1] >= last else torch.cat(ids, 1)
        is_known = whole[0, :last].tolist() == generated[:last]
    elif is_known:  # beams are reordered, but all have the same beginning
        first = next(iter(ids))
        width = min(len(before), int(first.shape[1]))
        is_known = bool((first[:, :width] == first.new_tensor(before[:width])).all())
    if not is_known:
        raise UnsupportedModel(
            f"{type(model).__name__}.generate returns tokens that differ from those that the model "
            "reads, so a recording would not match the run. Generate the tokens yourself and pass "
            "them as answer."
        )


def without_end(model: Any, tokenizer: Any, new: Sequence[int]) -> list[int]:
    """Drop the end-of-turn token and other special tokens at the end of generated ids.

    If all ids are special tokens, they are returned unchanged.
    """
    ends = getattr(model.generation_config, "eos_token_id", None)
    stops = set(ends if isinstance(ends, list) else [ends])
    special = token_row(tokenizer, new).special or (False,) * len(new)
    count = len(new)
    while count and (special[count - 1] or new[count - 1] in stops):
        count -= 1
    return list(new[: count or None])


def with_mask(model: nn.Module, tensors: dict[str, Any]) -> dict[str, Any]:
    """Add masks of ones for all token ids, if the model accepts masks."""
    accepted = inspect.signature(model.forward).parameters
    for name in list(tensors):
        mask = name.replace("input_ids", "attention_mask")
        if mask in accepted:
            tensors[mask] = torch.ones_like(tensors[name])
    return tensors


def _check_options(model: Any, tokens: int, generate_options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checked options of `generate`. The default is greedy search."""
    options = dict(generate_options)
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
            f"generation_config is {type(config).__name__}. Pass a GenerationConfig of "
            "transformers."
        )
    _check_lengths(model, tokens, options)
    for name in _RETURNED:  # Whisper would also return its start tokens
        options.pop(name, None)
        unsaid[name] = False
    options["logits_processor"] = [*(options.get("logits_processor") or ()), _numbers_only]
    if unsaid.get("do_sample") is None:
        unsaid["do_sample"] = False
    if model.generation_config.pad_token_id is None and unsaid.get("pad_token_id") is None:
        ends = model.generation_config.eos_token_id
        unsaid["pad_token_id"] = ends[0] if isinstance(ends, list) else ends
    return options


def _numbers_only(ids: Any, logits: Tensor) -> Tensor:
    """Raise an error if the logits of a step are NaN, because `generate` would still return a
    token.
    """
    if logits.isnan().any():
        raise NonFiniteActivations("The model's logits are NaN. Check the weights of its head.")
    return logits


def _check_lengths(model: nn.Module, tokens: int, options: dict[str, Any]) -> None:
    """Raise `InvalidInput` if the maximum length is not a positive integer, and `InputTooLong` if
    it exceeds the model's positions.
    """
    decodes = takes_decoder_ids(model)
    tokens_before = 1 if decodes else tokens
    config = options.get("generation_config")
    for name, before in (
        ("max_new_tokens", 0),
        ("max_length", tokens_before),
    ):  # the first one applies
        source = options if config is None or options.get(name) is not None else vars(config)
        if source.get(name) is None:
            continue
        source[name] = count = _whole_number(name, source[name])
        if count > before:  # otherwise `generate` rejects it
            require_room(model, "decoder_" if decodes else "", tokens_before, count - before)
        return


def _whole_number(name: str, value: Any) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        count = operator.index(value)
    except TypeError:
        raise InvalidInput(
            f"{name}={value!r} is not an integer. Pass a number of tokens."
        ) from None
    if count < 1:
        raise InvalidInput(f"{name}={count} is out of range. Pass at least 1.")
    return count


def require_room(model: nn.Module, prefix: str, prompt: int, more: int) -> None:
    """Raise `InputTooLong` if a continuation with this many tokens needs more positions than the
    model has.

    The last token of the continuation is produced but not read, so it does not need a position.
    """
    limit = position_limit(model, prefix)
    if limit is None or prompt + more - 1 <= limit:
        return
    room = limit - prompt + 1
    if room < 1:
        raise InputTooLong(
            f"The prompt has {format_count(prompt, 'token')}, but the model has {limit} positions. "
            "Shorten the prompt."
        )
    if prefix:
        raise InputTooLong(
            f"A continuation of {format_count(more, 'token')} does not fit the decoder's {limit} "
            f"positions. Allow up to {room}."
        )
    raise InputTooLong(
        f"A prompt of {format_count(prompt, 'token')} and a continuation of {more} do not fit the "
        f"model's {limit} positions. Allow a continuation of up to {room}."
    )


_CALLED = (
    "generation_config",
    "logits_processor",
    "prefix_allowed_tokens_fn",
    "stopping_criteria",
    "streamer",
    "synced_gpus",
    "tokenizer",
    "use_model_defaults",
)
_LENGTHS = (
    "early_stopping",
    "exponential_decay_length_penalty",
    "length_penalty",
    "max_length",
    "max_new_tokens",
    "max_time",
    "min_length",
    "min_new_tokens",
    "stop_strings",
)
_CHOICES = (
    "bad_words_ids",
    "begin_suppress_tokens",
    "diversity_penalty",
    "do_sample",
    "encoder_no_repeat_ngram_size",
    "encoder_repetition_penalty",
    "epsilon_cutoff",
    "eta_cutoff",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "min_p",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "remove_invalid_values",
    "renormalize_logits",
    "repetition_penalty",
    "sequence_bias",
    "suppress_tokens",
    "temperature",
    "top_h",
    "top_k",
    "top_p",
    "typical_p",
    "watermarking_config",
)
_TOKENS = ("bos_token_id", "decoder_start_token_id", "eos_token_id", "pad_token_id")
_MEMORY = ("cache_config", "disable_compile", "max_cache_len", "prefill_chunk_size", "use_cache")
_RETURNED = (
    "output_attentions",
    "output_hidden_states",
    "output_logits",
    "output_scores",
    "return_dict_in_generate",
)
_PASSED_ON = {*_CALLED, *_LENGTHS, *_CHOICES, *_TOKENS, *_MEMORY, *_RETURNED}

# Options that change the input or the computation, and their harmless values.
_CHANGING: dict[str, tuple[Any, ...]] = {
    "assistant_early_exit": (None,),
    "assistant_model": (None,),
    "custom_generate": (None,),
    "dola_layers": (None,),
    "guidance_scale": (None, 1),
    "negative_prompt_ids": (None,),
    "penalty_alpha": (None, 0),
    "prompt_lookup_num_tokens": (None,),
    "token_healing": (None, False),
    "use_mtp": (None, False),
}
_CACHE = "cache_implementation"


def check_options(model: Any, options: Mapping[str, Any], config: Any) -> None:
    """Raise `InvalidInput` for options that may change the input or the computation of the
    model.
    """
    for name in options:
        if name not in _PASSED_ON and name not in _CHANGING and name != _CACHE:
            raise InvalidInput(
                f"{name} is not an option of lens.generate, which only accepts options that "
                "select tokens or stop the generation. Record other inputs with lens.record."
            )
    for name, harmless in _CHANGING.items():
        value, where = _value(model, options, config, name)
        if not any(value is each or (each is not None and value == each) for each in harmless):
            raise _changing(name, value, where)
    value, where = _value(model, options, config, _CACHE)
    if value == "quantized":
        raise _changing(_CACHE, value, where)


def _value(model: Any, options: Mapping[str, Any], config: Any, name: str) -> tuple[Any, str]:
    """Return the value that `generate` will use for an option, and where it is set."""
    if options.get(name) is not None:
        return options[name], ""
    if isinstance(config, GenerationConfig) and getattr(config, name, None) is not None:
        return getattr(config, name), " in generation_config"
    return getattr(model.generation_config, name, None), " in model.generation_config"


def _changing(name: str, value: Any, where: str) -> InvalidInput:
    value_text = value if isinstance(value, (str, int, float)) else type(value).__name__
    return InvalidInput(
        f"{name}={value_text!r}{where} changes the input or the computation of the model, so a "
        "recording would differ from it. Drop it, or set it to None."
    )
