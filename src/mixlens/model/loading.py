"""Load a model and its tokenizer by hub name or folder, as the class that it was saved as."""

from __future__ import annotations

import contextlib
import inspect
import os
import pickle
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from safetensors import SafetensorError

from mixlens.errors import CannotLoad, MixlensError, UnsupportedModel
from mixlens.model.checkpoint_weights import split_missing, stored_as_integers
from mixlens.model.hub_errors import hub_refusal, unreachable
from mixlens.model.hub_timeout import cache_alone, hub_is_silent
from mixlens.model.placement import is_packed, with_numbers
from mixlens.model.sentence_folder import encoder_class, encoder_folder

_SHARED = ("revision", "token", "cache_dir", "local_files_only", "trust_remote_code")


def loaded(name: str, tokenizer: Any, options: dict[str, Any]) -> tuple[Any, Any, Any]:
    """The model in eval mode, its tokenizer and its processor (None if it has none)."""
    import transformers

    shared = {key: options[key] for key in _SHARED if key in options}
    named = (each for each in (name, tokenizer) if isinstance(each, str))
    asks_hub = any(map(_may_be_on_hub, named)) and not shared.get("local_files_only")
    silent = asks_hub and hub_is_silent()
    with _reasons(name), cache_alone(silent):
        encoder = encoder_folder(name)
        model = _model(encoder or name, options, shared, is_encoder=encoder is not None)
    if encoder is not None:
        model.config._name_or_path = os.fspath(name)  # next to the settings of its pooling
    if isinstance(tokenizer, str):
        with _reasons(tokenizer), cache_alone(silent):
            tokenizer = transformers.AutoTokenizer.from_pretrained(tokenizer, **shared)
    elif tokenizer is None:
        tokenizer = _own_tokenizer(encoder or name, shared, silent)
    with cache_alone(silent):
        return model, tokenizer, _own_processor(encoder or name, model, shared)


def _may_be_on_hub(name: str) -> bool:
    """A name, or owner/name, and not what is on this machine."""
    elsewhere = name.startswith((".", "/", "~")) or name.count("/") > 1
    return not elsewhere and not os.path.exists(name)


def _model(
    name: str, options: dict[str, Any], shared: dict[str, Any], *, is_encoder: bool = False
) -> Any:
    import transformers

    config = transformers.AutoConfig.from_pretrained(name, **shared)
    cls = transformers.AutoModel
    for architecture in getattr(config, "architectures", None) or []:
        cls = getattr(transformers, architecture, cls)
    if options.get("trust_remote_code") and getattr(config, "auto_map", None):
        cls = transformers.AutoModel
    elif is_encoder:
        cls = encoder_class(config)
    options = _with_dtype(config, options)
    reported = {**options, "output_loading_info": True, "ignore_mismatched_sizes": True}
    model, report = cls.from_pretrained(name, **reported)
    if getattr(model, "_hf_peft_config_loaded", False):  # then it reports on the adapter alone
        report["missing_keys"] |= {
            key for key, weight in model.named_parameters() if not _is_read(weight)
        }
    if not options.get("ignore_mismatched_sizes"):
        _require_shapes(name, report["mismatched_keys"])
    _note_missing(model, name, report)
    integers = stored_as_integers(model, report["unexpected_keys"], options)
    if integers:
        raise CannotLoad(
            f"{_listed(integers)}: {os.fspath(name)!r} stores these weights as integers or"
            " booleans, and names no quantisation that they belong to, so the numbers of the model"
            " are lost. Use a checkpoint with floating-point weights."
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


def _is_read(weight: Any) -> bool:
    """Has transformers read a weight from a file? It marks those that need no initialisation."""
    return bool(getattr(weight, "_is_hf_initialized", False))


class _Missing(NamedTuple):
    """A weight that was drawn at random, and the version of its tensor then."""

    is_head: bool
    version: int


_missing: weakref.WeakKeyDictionary[Any, dict[str, _Missing]] = weakref.WeakKeyDictionary()


def _require_shapes(name: str, mismatched: Iterable[tuple[str, Any, Any]]) -> None:
    for key, stored, wanted in sorted(mismatched, key=lambda each: each[0]):
        raise CannotLoad(
            f"{key} of {os.fspath(name)!r} has the shape {tuple(stored)}, and the model of its"
            f" config.json {tuple(wanted)}: weights are missing, or config.json belongs to a"
            " different model"
        )


def _note_missing(model: Any, name: str, report: Mapping[str, Any]) -> None:
    """Raise for missing weights of the layers; remember those of the head."""
    missing = {*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])}
    body, head = split_missing(model, missing)
    if body:
        raise CannotLoad(
            f"{_listed(body)}: the checkpoint {os.fspath(name)!r} lacks these weights, or has them"
            " in a different shape, and transformers puts random numbers in their place. No score"
            " of this model would mean anything. Copy or download the whole checkpoint again, and"
            " load it as the class that it was saved as."
        )
    weights = dict(model.named_parameters(remove_duplicate=False))
    _missing[model] = {
        key: _Missing(key in head, weights[key]._version) for key in missing if key in weights
    }


def newly_initialised(model: Any) -> dict[str, bool]:
    """Return the weights that the checkpoint lacked and nobody has set since, by name, each with
    whether it is part of the head.
    """
    drawn = _missing.get(model)
    if not drawn:
        return {}
    weights = dict(model.named_parameters(remove_duplicate=False))
    return {
        key: is_head
        for key, (is_head, version) in sorted(drawn.items())
        if key in weights and weights[key]._version == version
    }


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + " …" * (len(names) > 3)


def require_head(model: Any) -> None:
    """Raise if the checkpoint lacked weights of the model's head: they are random numbers."""
    missing = [name for name, is_head in newly_initialised(model).items() if is_head]
    if missing:
        raise UnsupportedModel(
            f"the checkpoint has no {_listed(missing)}: the head"
            f" of {type(model).__name__} is random, and so is what it says. Load a checkpoint that"
            " was trained with it. Measures of what is inside tokens do not need it."
        )


def _own_tokenizer(name: str, shared: dict[str, Any], silent: bool) -> Any:
    import transformers

    try:
        with cache_alone(silent):
            tokenizer = transformers.AutoTokenizer.from_pretrained(name, **shared)
    except Exception as error:  # whatever a damaged file makes a reader do
        if unreachable(error) or not isinstance(error, _ABSENT):
            raise CannotLoad(f"{_reason(name, error)} (in the files of its tokenizer)") from error
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
    except _ABSENT:
        return None  # a folder without one: inputs are then tensors
    except Exception as error:  # whatever a damaged file makes a reader do
        raise CannotLoad(f"{_reason(name, error)} (in the files of its processor)") from error


_ABSENT = (OSError, ValueError, KeyError, ImportError, AttributeError, TypeError)


@contextlib.contextmanager
def _reasons(name: Any) -> Iterator[None]:
    """What goes wrong while a model is loaded, as one error that says what to do about it."""
    if not isinstance(name, (str, os.PathLike)):
        raise CannotLoad(f"{type(name).__name__} is not a model name. Pass a hub name or a folder.")
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
    except MixlensError:
        raise
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
        if "conversion of the weights" in str(error):
            return (
                f"cannot load the folder {name!r}: weights that transformers joins into one, such"
                " as those of experts, are missing or differ in shape. Copy or download the whole"
                " checkpoint again."
            )
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
