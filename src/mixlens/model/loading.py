"""Load a model and its tokenizer by hub name or folder, with the model class that it was saved
with.
"""

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
from mixlens.model.checkpoint_weights import dropped_parts, split_missing, stored_as_integers
from mixlens.model.hub_access import cache_alone, hub_is_silent, hub_refusal, unreachable
from mixlens.model.placement import with_numbers
from mixlens.model.readable_weights import is_packed
from mixlens.model.sentence_folder import encoder_class, encoder_folder

_SHARED = ("revision", "token", "cache_dir", "local_files_only", "trust_remote_code")


def load_model(name: str, tokenizer: Any, options: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return the model in eval mode, its tokenizer and its processor (None if the model has no
    processor).
    """
    import transformers

    shared = {key: options[key] for key in _SHARED if key in options}
    names = (each for each in (name, tokenizer) if isinstance(each, str))
    asks_hub = any(map(_may_be_on_hub, names)) and not shared.get("local_files_only")
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
    """Return whether this may be a hub name (a name or owner/name) rather than a local path."""
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
    has_adapter = getattr(model, "_hf_peft_config_loaded", False)
    if has_adapter:  # it then reports on the adapter alone
        report["missing_keys"] |= {
            key for key, weight in model.named_parameters() if not _is_read(weight)
        }
    if not options.get("ignore_mismatched_sizes"):
        _require_shapes(name, report["mismatched_keys"])
    _note_missing(model, name, report)
    dropped = [] if has_adapter else dropped_parts(model, report["unexpected_keys"])
    if dropped:
        raise CannotLoad(
            f"{os.fspath(name)!r} stores {_join(dropped)}, but {type(model).__name__} ignores "
            "these weights with this config.json, so its layers would compute different results. "
            "Copy the config.json that belongs to the weights."
        )
    integers = stored_as_integers(model, report["unexpected_keys"], options)
    if integers:
        raise CannotLoad(
            f"{os.fspath(name)!r} stores {_join(integers)} as integers or booleans without "
            "a quantisation config, so the original numbers are lost. Use a checkpoint with "
            "floating-point weights."
        )
    return model.eval()


def _with_dtype(config: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return the loading options, with float32 as the default dtype, as on the command line.

    A dtype in the options takes precedence. float64 and quantised checkpoints keep their dtype.
    """
    import torch

    quantised = getattr(config, "quantization_config", None) or options.get("quantization_config")
    wide = getattr(config, "dtype", None) == torch.float64
    if quantised or wide or options.keys() & {"dtype", "torch_dtype"}:
        return options
    return {**options, "dtype": torch.float32}


def _is_read(weight: Any) -> bool:
    """Return whether transformers has loaded a weight from the checkpoint.

    transformers marks such weights with `_is_hf_initialized`, because they need no initialisation.
    """
    return bool(getattr(weight, "_is_hf_initialized", False))


class _Missing(NamedTuple):
    """A randomly initialised weight, and its version counter after loading."""

    is_head: bool
    version: int


_missing: weakref.WeakKeyDictionary[Any, dict[str, _Missing]] = weakref.WeakKeyDictionary()


def _require_shapes(name: str, mismatched: Iterable[tuple[str, Any, Any]]) -> None:
    for key, stored, shape in sorted(mismatched, key=lambda each: each[0]):
        raise CannotLoad(
            f"{key} of {os.fspath(name)!r} has the shape {tuple(stored)}, but its config.json "
            f"gives {tuple(shape)}. Weights are missing, or config.json belongs to a "
            "different model; download or copy the checkpoint again."
        )


def _note_missing(model: Any, name: str, report: Mapping[str, Any]) -> None:
    """Raise `CannotLoad` if weights of the layers are missing. Store which weights of the head are
    missing.
    """
    missing = {*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])}
    body, head = split_missing(model, missing)
    if body:
        raise CannotLoad(
            f"The checkpoint {os.fspath(name)!r} lacks {_join(body)}, or has them in a "
            "different shape, so transformers initialises them at random and no score would "
            "be meaningful. Copy or download the whole checkpoint again, and load it as the "
            "class that it was saved as."
        )
    weights = dict(model.named_parameters(remove_duplicate=False))
    _missing[model] = {
        key: _Missing(key in head, weights[key]._version) for key in missing if key in weights
    }


def newly_initialised(model: Any) -> dict[str, bool]:
    """Return the weights that are still random because the checkpoint lacks them.

    Keys are the names of the weights, and values are True for weights of the head. Weights that
    were changed since loading are left out.
    """
    random_weights = _missing.get(model)
    if not random_weights:
        return {}
    weights = dict(model.named_parameters(remove_duplicate=False))
    return {
        key: is_head
        for key, (is_head, version) in sorted(random_weights.items())
        if key in weights and weights[key]._version == version
    }


def _join(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + " …" * (len(names) > 3)


def require_head(model: Any) -> None:
    """Raise `UnsupportedModel` if the head is still random because the checkpoint has no weights
    for it.
    """
    missing = [name for name, is_head in newly_initialised(model).items() if is_head]
    if missing:
        raise UnsupportedModel(
            f"The checkpoint has no {_join(missing)}, so the head of {type(model).__name__} "
            "and its predictions are random. Load a checkpoint that includes the trained head, "
            "or use a measure that does not explain the model's output."
        )


def _own_tokenizer(name: str, shared: dict[str, Any], silent: bool) -> Any:
    import transformers

    try:
        with cache_alone(silent):
            tokenizer = transformers.AutoTokenizer.from_pretrained(name, **shared)
    except Exception as error:  # a damaged file can raise any error
        if unreachable(error) or not isinstance(error, _ABSENT):
            raise CannotLoad(f"{_reason(name, error)} (in the files of its tokenizer)") from error
        return None  # a folder without tokenizer files: inputs are then tensors
    return tokenizer if _knows_words(tokenizer) else None


def _own_processor(name: str, model: Any, shared: dict[str, Any]) -> Any:
    """Return the processor of a model for images and audio, or None if it has none."""
    import transformers

    accepted = set(inspect.signature(model.forward).parameters)
    if not {"pixel_values", "input_values", "input_features"} & accepted:
        return None
    try:
        processor: Any = transformers.AutoProcessor
        return processor.from_pretrained(name, **shared)
    except _ABSENT:
        return None  # a folder without one: inputs are then tensors
    except Exception as error:  # a damaged file can raise any error
        raise CannotLoad(f"{_reason(name, error)} (in the files of its processor)") from error


_ABSENT = (OSError, ValueError, KeyError, ImportError, AttributeError, TypeError)


@contextlib.contextmanager
def _reasons(name: Any) -> Iterator[None]:
    """Turn any error during loading into `CannotLoad` with advice."""
    if not isinstance(name, (str, os.PathLike)):
        raise CannotLoad(f"{type(name).__name__} is not a model name. Pass a hub name or a folder.")
    path = os.fspath(name)
    try:
        yield
    except SafetensorError as error:
        raise CannotLoad(
            f"{path!r} has truncated or damaged weights ({_first_line(error)}). Download or "
            "copy them again."
        ) from error
    except pickle.UnpicklingError as error:
        raise CannotLoad(
            f"{path!r} stores its weights in a pickle with more than numbers, which could "
            "run code, so mixlens does not read it. Use a checkpoint in safetensors format."
        ) from error
    except MixlensError:
        raise
    except Exception as error:  # a damaged or hostile file can raise any error
        raise CannotLoad(_reason(path, error)) from error


def _reason(name: str, error: Exception) -> str:
    if os.path.isdir(name):
        if not os.path.exists(os.path.join(name, "config.json")):
            if os.path.exists(os.path.join(name, "adapter_config.json")):
                return (
                    f"{name!r} is a PEFT adapter, not a whole model. Load it with peft and "
                    "pass that model to Lens, or merge it into its model (merge_and_unload) "
                    "and save the merged model and its tokenizer in a separate folder"
                )
            return f"{name!r} has no config.json. Pass the folder of a model, or add the file"
        if "conversion of the weights" in str(error):
            return (
                f"{name!r} lacks weights that transformers merges into one, such as those of "
                "experts, or their shapes differ. Copy or download the whole checkpoint "
                "again."
            )
        return f"the folder {name!r} cannot be loaded: {_first_line(error)}"
    if os.path.exists(name):
        return f"{name!r} is a file. Pass the folder of a model"
    if "://" in name:
        return f"{name!r} is not a model name. Pass a folder, or a model of the hub as owner/name"
    if not _may_be_on_hub(name):
        return f"{name!r} is not an existing folder. Pass a Hub name or the folder of a model"
    refusal = hub_refusal(error)
    if refusal is not None:
        return f"{name!r} is not an existing folder, and cannot be loaded from the hub: {refusal}"
    return f"{name!r} cannot be loaded from the hub: {_first_line(error)}"


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


@contextlib.contextmanager
def quiet_loading() -> Iterator[None]:
    """Hide the progress bar of models that load in a fraction of a second."""
    import transformers

    bars: Any = transformers.utils.logging
    is_shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if is_shown:
            bars.enable_progress_bar()


def _knows_words(tokenizer: Any) -> bool:
    """Return whether a tokenizer has more than special tokens.

    If a folder has no tokenizer, transformers creates one with only special tokens.
    """
    return len(set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens)) > 1


def damaged_weights(model: Any) -> str | None:
    """Return a message about weights that contain NaN or infinity, or None."""
    for name, value in with_numbers(model):
        if is_packed(value):
            continue
        if value.is_floating_point() and not bool(value.isfinite().all()):
            if not name.endswith(("mask", "bias_table")):  # masks may contain minus infinity
                return (
                    f"The weights `{name}` contain NaN or infinity, so all scores would be "
                    "meaningless. Load the checkpoint again, or find out what damaged it"
                )
    return None
