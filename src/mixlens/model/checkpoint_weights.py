"""Find weights that are missing from a checkpoint, unexpected, or stored in a wrong format.
transformers fills missing weights with random numbers, casts integers to floats, and only prints a
report. The scores of such a model look normal. This module decides for each affected weight whether
the layers depend on it (the *body*) or only the model's predictions (the *head*).
"""

from __future__ import annotations

import itertools
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from safetensors import safe_open
from torch import nn

_RUNNING = ("running_mean", "running_var")  # learned buffers
_UNUSED = ("masked_spec_embed",)  # used only in training
_REST = "pooler"  # reads the last layer, and only the head reads it


def split_missing(model: nn.Module, missing: Iterable[str]) -> tuple[list[str], list[str]]:
    """Divide missing weights between body and head, and return both lists, sorted by name.

    A tied weight is listed only once, and belongs to the body if any of its names belongs to it.
    Buffers that are not learned and weights that are only used in training are left out.
    """
    buffers = dict(model.named_buffers(remove_duplicate=False))
    tied: dict[int, list[str]] = {}  # names of each tensor
    for name, weight in model.named_parameters(remove_duplicate=False):
        tied.setdefault(id(weight), []).append(name)
    same = {name: names for names in tied.values() for name in names}
    outputs = _output_layers(model)
    body, head = set(), set()
    for name in missing:
        last = name.rpartition(".")[2]
        if last in _UNUSED or (name in buffers and last not in _RUNNING):
            continue
        names = same.get(name, [name])
        if all(_is_head(model, each, outputs) for each in names):
            head.add(name)
        else:
            body.add(names[0].replace(".base_layer.", "."))  # which PEFT adds to names
    return sorted(body), sorted(head)


def dropped_parts(model: Any, unexpected: Iterable[str]) -> list[str]:
    """Return stored tensors that are not loaded although they belong to a module of the model.

    Examples are the bias of a linear layer that has no bias according to the config, and the scale
    of 8-bit weights. Tensors of modules that the model does not have (a head, more layers) are
    often unused on purpose, so they are left out.
    """
    if getattr(model.config, "quantization_config", None) is not None:
        return []
    prefix = getattr(model, "base_model_prefix", "")
    modules = dict(model.named_modules())
    holders = {path for path, module in modules.items() if "weight" in module._parameters}
    holders |= {f"{prefix}.{path}" for path in holders}
    holders |= {path.removeprefix(f"{prefix}.") for path in holders}
    return sorted(
        name
        for name in unexpected
        if not name.endswith("_extra_state")
        and any(path in holders for path in itertools.accumulate(name.split("."), "{}.{}".format))
    )


def _output_layers(model: nn.Module) -> set[int]:
    """Return the ids of the layers that compute vocabulary logits.

    Nested models are included, because a head can be a sibling of the stacks, as in T5.
    """
    layers = set()
    each: Any
    for each in model.modules():
        if hasattr(each, "base_model_prefix") and hasattr(each, "get_output_embeddings"):
            try:
                layers.add(id(each.get_output_embeddings()))
            except (AttributeError, NotImplementedError):
                continue
    return layers - {id(None)}


def _is_head(model: nn.Module, name: str, outputs: set[int]) -> bool:
    """Return whether a weight belongs to the head.

    The head consists of poolers, output layers, and modules outside the base model that contain no
    layers themselves.
    """
    part: Any = model
    for step in name.split("."):
        if isinstance(part, nn.ModuleList):
            return False
        inner = getattr(part, step, None)
        if step == _REST or id(inner) in outputs:
            return True
        base = getattr(part, "base_model", None) if hasattr(part, "base_model_prefix") else None
        if base is not None and base is not part and inner is not base:
            return not isinstance(inner, nn.Module) or not _has_layers(inner)
        part = inner
    return False


def _has_layers(part: nn.Module) -> bool:
    return any(isinstance(inner, nn.ModuleList) for inner in part.modules())


def stored_as_integers(
    model: Any, unexpected: Iterable[str], options: Mapping[str, Any]
) -> list[str]:
    """Return the weights that the checkpoint stores as integers or booleans, sorted by name.

    Buffers are left out, because integer buffers are common. The result is empty for a quantised
    checkpoint.
    """
    if getattr(model.config, "quantization_config", None) is not None or options.get("gguf_file"):
        return []
    allowed = [*unexpected, *(key for key, _ in model.named_buffers(remove_duplicate=False))]
    return sorted(
        key
        for file in _weight_files(model, options)
        for key in _integers(file)
        if not any(_same_name(key, other) for other in allowed)
    )


def _same_name(stored: str, parameter: str) -> bool:
    """Return whether two weight names are equal, or differ only by the prefix of the base model."""
    return (
        stored == parameter or stored.endswith(f".{parameter}") or parameter.endswith(f".{stored}")
    )


def _weight_files(model: Any, options: Mapping[str, Any]) -> list[str]:
    """Return the paths of the weight files that transformers has loaded."""
    from transformers.utils.hub import cached_file, get_checkpoint_shard_files

    names = ("revision", "cache_dir", "subfolder", "token")
    where: dict[str, Any] = {key: options[key] for key in names if options.get(key) is not None}
    where["local_files_only"] = True
    for file in _file_names(model, options):
        path = cached_file(model.name_or_path, file, **where, **_QUIETLY)
        if path is not None and ".index." in file:
            return list(get_checkpoint_shard_files(model.name_or_path, path, **where)[0])
        if path is not None:
            return [path]
    return []


_QUIETLY: dict[str, Any] = {
    "_raise_exceptions_for_missing_entries": False,
    "_raise_exceptions_for_gated_repo": False,
    "_raise_exceptions_for_connection_errors": False,
}


def _file_names(model: Any, options: Mapping[str, Any]) -> Iterator[str]:
    """Return the possible names of weight files or shard indices, in the order transformers tries
    them.
    """
    explicit = getattr(model.config, "transformers_weights", None)
    if explicit is not None:
        yield explicit
    variant = f".{options['variant']}" if options.get("variant") else ""
    for first, kind in (("model", "safetensors"), ("pytorch_model", "bin")):
        if kind != "safetensors" or options.get("use_safetensors") is not False:
            yield f"{first}{variant}.{kind}"
            yield f"{first}.{kind}.index{variant}.json"


def _integers(file: str) -> Iterator[str]:
    """Return the names of a weight file's tensors whose dtype is not a floating-point type."""
    if file.endswith(".safetensors"):
        with safe_open(file, framework="np") as opened:
            for key in opened.keys():  # noqa: SIM118 (the handle is not a dict)
                if not opened.get_slice(key).get_dtype().startswith(("F", "BF")):
                    yield key
        return
    weights = torch.load(
        file, map_location="meta", weights_only=True, mmap=zipfile.is_zipfile(file)
    )
    for key, value in weights.items():
        if isinstance(value, torch.Tensor) and not value.is_floating_point():
            yield key
