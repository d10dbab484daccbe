"""Folders that sentence-transformers saved: which model inside them is the encoder.

`modules.json` lists the steps from a text to its embedding. The config.json of the first step often
names the class that it was pretrained as (`MPNetForMaskedLM`), whose head is not in the folder.
"""

from __future__ import annotations

import os
from typing import Any

from mixlens.model.json_values import parse_json, require_form

_STEPS = [{"type": str, "path": str}]


def encoder_folder(name: Any) -> str | None:
    """Return where the encoder of a sentence-transformers folder is; None of any other folder, and
    of one whose first step is more than an encoder.
    """
    if not isinstance(name, (str, os.PathLike)) or not os.path.isdir(name):
        return None
    path = os.path.join(name, "modules.json")
    if not os.path.isfile(path):
        return None
    steps = _read(path)
    require_form(steps, _STEPS, "modules.json")
    kinds = [step["type"].rpartition(".")[2] for step in steps]
    if kinds[:1] != ["Transformer"] or "Pooling" not in kinds:
        return None
    folder = os.path.join(name, steps[0]["path"]) if steps[0]["path"] else os.fspath(name)
    settings = os.path.join(folder, "sentence_bert_config.json")
    task = _read(settings).get("transformer_task") if os.path.isfile(settings) else None
    return folder if task in (None, "feature-extraction") else None


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


def _read(path: str) -> Any:
    with open(path, encoding="utf-8") as file:
        return parse_json(file.read())
