"""Loading a model and its tokenizer by hub name or folder, as the class that it was saved as."""

from __future__ import annotations

import contextlib
import inspect
import os
import pickle
import weakref
from collections.abc import Iterator
from typing import Any

from safetensors import SafetensorError

from mixlens.errors import CannotLoad, UnsupportedModel
from mixlens.hub_refusals import hub_refusal, unreachable
from mixlens.hub_silence import cache_alone, hub_is_silent
from mixlens.recording.placement import is_packed, with_numbers

_SHARED = ("revision", "token", "cache_dir", "local_files_only", "trust_remote_code")


def loaded(name: str, tokenizer: Any, options: dict[str, Any]) -> tuple[Any, Any, Any]:
    """The model in eval mode, its tokenizer and its processor (None if it has none)."""
    import transformers

    shared = {key: options[key] for key in _SHARED if key in options}
    named = (each for each in (name, tokenizer) if isinstance(each, str))
    asks_hub = any(map(_may_be_on_hub, named)) and not shared.get("local_files_only")
    silent = asks_hub and hub_is_silent()
    with _reasons(name), cache_alone(silent):
        model = _model(name, options, shared)
    if isinstance(tokenizer, str):
        with _reasons(tokenizer), cache_alone(silent):
            tokenizer = transformers.AutoTokenizer.from_pretrained(tokenizer, **shared)
    elif tokenizer is None:
        tokenizer = _own_tokenizer(name, shared, silent)
    with cache_alone(silent):
        return model, tokenizer, _own_processor(name, model, shared)


def _may_be_on_hub(name: str) -> bool:
    """A name, or owner/name, and not what is on this machine."""
    elsewhere = name.startswith((".", "/", "~")) or name.count("/") > 1
    return not elsewhere and not os.path.exists(name)


def _model(name: str, options: dict[str, Any], shared: dict[str, Any]) -> Any:
    import transformers

    config = transformers.AutoConfig.from_pretrained(name, **shared)
    cls = transformers.AutoModel
    for architecture in getattr(config, "architectures", None) or []:
        cls = getattr(transformers, architecture, cls)
    if options.get("trust_remote_code") and getattr(config, "auto_map", None):
        cls = transformers.AutoModel
    options = _with_dtype(config, options)
    model, report = cls.from_pretrained(name, output_loading_info=True, **options)
    base = f"{getattr(model, 'base_model_prefix', '')}."
    _random_heads[model] = tuple(
        sorted(key for key in report["missing_keys"] if not key.startswith(base))
    )
    return model.eval()


def _with_dtype(config: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Load float32, as the command line does, unless a dtype is given or the checkpoint is float64
    or quantised.
    """
    import torch

    quantised = getattr(config, "quantization_config", None) or options.get("quantization_config")
    wide = getattr(config, "dtype", None) == torch.float64
    if quantised or wide or options.keys() & {"dtype", "torch_dtype"}:
        return options
    return {**options, "dtype": torch.float32}


_random_heads: weakref.WeakKeyDictionary[Any, tuple[str, ...]] = weakref.WeakKeyDictionary()


def require_head(model: Any) -> None:
    """Refuses what a model says if the checkpoint lacked the weights of its head: they are random
    numbers.
    """
    missing = _random_heads.get(model, ())
    if missing:
        raise UnsupportedModel(
            f"the checkpoint has no {', '.join(missing[:3])}{' …' * (len(missing) > 3)}: the head"
            f" of {type(model).__name__} is random, and so is what it says. Load a checkpoint that"
            " was trained with it. Measures of what is inside tokens do not need it."
        )


def _own_tokenizer(name: str, shared: dict[str, Any], silent: bool) -> Any:
    import transformers

    try:
        with cache_alone(silent):
            tokenizer = transformers.AutoTokenizer.from_pretrained(name, **shared)
    except (OSError, ValueError, KeyError, ImportError, AttributeError, TypeError) as error:
        if unreachable(error):
            raise CannotLoad(_reason(name, error)) from error
        return None  # a folder without tokenizer files: inputs are then tensors, and a text says so
    return tokenizer if _knows_words(tokenizer) else None


def _own_processor(name: str, model: Any, shared: dict[str, Any]) -> Any:
    """The processor that makes tensors of images and sounds for a model; None if it takes neither,
    or none was saved with it.
    """
    import transformers

    accepted = set(inspect.signature(model.forward).parameters)
    if not {"pixel_values", "input_values", "input_features"} & accepted:
        return None
    try:
        processor: Any = transformers.AutoProcessor
        return processor.from_pretrained(name, **shared)
    except (OSError, ValueError, KeyError, ImportError, AttributeError, TypeError):
        return None  # a folder without one: inputs are then tensors


@contextlib.contextmanager
def _reasons(name: Any) -> Iterator[None]:
    """What goes wrong while a model is loaded, as one error that says what to do about it."""
    if not isinstance(name, (str, os.PathLike)):
        raise CannotLoad(f"a hub name or a folder is needed, not {type(name).__name__}")
    shown = os.fspath(name)
    try:
        yield
    except SafetensorError as error:
        raise CannotLoad(
            f"cannot load {shown!r}: its weights are cut off or damaged ({_first_line(error)}):"
            " download or copy them again"
        ) from error
    except pickle.UnpicklingError as error:
        raise CannotLoad(
            f"cannot load {shown!r}: its weights are a pickle that holds more than numbers. Such a"
            " file can run code, so it is not read: use a checkpoint in safetensors format"
        ) from error
    except Exception as error:  # whatever a damaged or hostile file makes a reader do
        raise CannotLoad(_reason(shown, error)) from error


def _reason(name: str, error: Exception) -> str:
    if os.path.isdir(name):
        if not os.path.exists(os.path.join(name, "config.json")):
            if os.path.exists(os.path.join(name, "adapter_config.json")):
                return (
                    f"cannot load {name!r}: it is a PEFT adapter, not a whole model. Load it with"
                    " peft and make a Lens of that, or merge it into its model (merge_and_unload)"
                    " and save that model and its tokenizer in a folder of their own"
                )
            return f"cannot load {name!r}: the folder has no config.json, so it is not a model"
        return f"cannot load the folder {name!r}: {_first_line(error)}"
    if os.path.exists(name):
        return f"cannot load {name!r}: it is a file, and a model is a folder"
    if "://" in name:
        return f"cannot load {name!r}: name a folder, or a model of the hub as owner/name"
    if not _may_be_on_hub(name):
        return f"cannot load {name!r}: there is no such folder"
    refusal = hub_refusal(error)
    if refusal is not None:
        return f"cannot load {name!r}: there is no such folder, and on the hub: {refusal}"
    return f"cannot load {name!r} from the hub: {_first_line(error)}"


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


@contextlib.contextmanager
def quiet_loading() -> Iterator[None]:
    """No progress bar for what takes a tenth of a second."""
    import transformers

    bars: Any = transformers.utils.logging
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            bars.enable_progress_bar()


def _knows_words(tokenizer: Any) -> bool:
    """transformers makes an empty tokenizer for a folder that has none: it knows its special tokens
    and nothing else.
    """
    return len(set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens)) > 1


def tokenizer_doubt(model: Any, tokenizer: Any) -> str | None:
    """Why a tokenizer looks like a different model's, or None.

    Embeddings are padded by a few per cent at most, and have a row for every token.
    """

    rows = vocabulary_size(model)
    if tokenizer is None or not rows or not hasattr(tokenizer, "__len__"):
        return None
    known = len(tokenizer)
    if 0.9 * rows <= known <= rows:
        return None
    return (
        f"the tokenizer has {known:,} tokens and the model {rows:,}: is it the tokenizer of a"
        " different model? Its tokens would then be read as other words."
    )


def damaged_weights(model: Any) -> str | None:
    """Which weights hold NaN or infinity, in words; None if all are sound."""
    for name, value in with_numbers(model):
        if is_packed(value):
            continue
        if value.is_floating_point() and not bool(value.isfinite().all()):
            if not name.endswith(("mask", "bias_table")):  # masks may be made of minus infinity
                return (
                    f"the weights `{name}` hold NaN or infinity, so the model's numbers mean"
                    " nothing: load the checkpoint again, or find out what damaged it"
                )
    return None


def vocabulary_size(model: Any, *, decoder: bool = False) -> int | None:
    """Rows of the input embedding; None if there is none."""
    try:
        holder = model.get_decoder() if decoder else model
        return getattr(holder.get_input_embeddings(), "num_embeddings", None)
    except (NotImplementedError, AttributeError):  # models of several towers
        text = getattr(model.config, "text_config", None)
        return None if decoder else getattr(text, "vocab_size", None)
