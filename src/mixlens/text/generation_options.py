"""Check that the options of `generate` do not change the input of the model.

The allowed options change how the next token is chosen from the logits, when generation stops, or
which values are returned. Unknown options raise an error, because they could reach the model's
`forward` (`inputs_embeds`, `past_key_values`). Options with a second model, a second prompt or a
quantised cache always raise an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import GenerationConfig

from mixlens.errors import InvalidInput

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
    shown = value if isinstance(value, (str, int, float)) else type(value).__name__
    return InvalidInput(
        f"{name}={shown!r}{where} changes the input or the computation of the model, so a "
        "recording would differ from it. Drop it, or set it to None."
    )
