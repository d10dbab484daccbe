"""Read folders that sentence-transformers saved.

`modules.json` lists the steps from a text to its embedding. The config.json of the first step often
names the class of its pretraining (`MPNetForMaskedLM`), whose head is not in the folder.
"""

from __future__ import annotations

import os
from typing import Any

from mixlens.model.json_values import parse_json, require_form

_STEPS = [{"type": str}]


def encoder_folder(name: Any) -> str | None:
    """Return the folder of the encoder in a sentence-transformers folder, or None for any other
    folder and for one whose first step is more than an encoder.
    """
    if not isinstance(name, (str, os.PathLike)) or not os.path.isdir(name):
        return None
    steps = embedding_steps(name)
    kinds = [kind for kind, _ in steps]
    if kinds[:1] != ["Transformer"] or "Pooling" not in kinds:
        return None
    folder = os.path.join(name, steps[0][1]) if steps[0][1] else os.fspath(name)
    task = read_settings(folder, "sentence_bert_config.json").get("transformer_task")
    return folder if task in (None, "feature-extraction") else None


def embedding_steps(folder: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """Return the kind and the path of each step from a text to its embedding, or nothing if the
    folder does not list them.
    """
    steps = _read(folder, "modules.json")
    if steps is None:
        return []
    require_form(steps, _STEPS, "modules.json")
    paths = [step.get("path", "") for step in steps]
    require_form(paths, [str], "the paths of modules.json")
    kinds = [step["type"].rpartition(".")[2] for step in steps]
    return list(zip(kinds, paths, strict=True))


def read_settings(folder: str | os.PathLike[str], *path: str) -> dict[str, Any]:
    """Return the settings in a file, or none if it does not exist."""
    settings = _read(folder, *path)
    if settings is None:
        return {}
    require_form(settings, {}, path[-1])
    return dict(settings)


def encoder_class(config: Any) -> Any:
    """Return the class that loads a model without its head, and an encoder without its decoder."""
    import transformers

    for name in getattr(config, "architectures", None) or []:
        own = getattr(transformers, name, None)
        if own is not None and name.endswith("Model"):
            return own  # it has no head
    encoders: Any = transformers.MODEL_FOR_TEXT_ENCODING_MAPPING
    known = type(config) in encoders
    return transformers.AutoModelForTextEncoding if known else transformers.AutoModel


def _read(*path: str | os.PathLike[str]) -> Any:
    file = os.path.join(*path)
    if not os.path.isfile(file):
        return None
    with open(file, encoding="utf-8") as opened:
        return parse_json(opened.read())
