"""Read folders that sentence-transformers saved, and pool token states according to their settings.

`modules.json` lists the steps from a text to its embedding. The config.json of the first step often
names the class used for pretraining (`MPNetForMaskedLM`), whose head is not in the folder.
`1_Pooling/config.json` names the pooling that the model was trained with. A SentenceTransformer
pools with its own modules (`mixlens.model.sentence_encoder`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from mixlens.errors import InvalidInput, UnsupportedModel
from mixlens.model.json_values import parse_json, require_form

SIMILARITY = "similarity_fn_name"  # setting of sentence-transformers
_STEPS = [{"type": str}]


def encoder_folder(name: Any) -> str | None:
    """Return the folder of the encoder inside a sentence-transformers folder.

    Return None for any other folder, or if the first step is not a plain encoder.
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
    """Return the type and the path of each step from a text to its embedding.

    The list is empty if the folder has no `modules.json`.
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
    """Return the settings in a JSON file, or an empty dict if it does not exist."""
    settings = _read(folder, *path)
    if settings is None:
        return {}
    require_form(settings, {}, path[-1])
    return dict(settings)


def encoder_class(config: Any) -> Any:
    """Return the class to load an encoder with, without a head and without a decoder."""
    import transformers

    for name in getattr(config, "architectures", None) or []:
        model_class = getattr(transformers, name, None)
        if model_class is not None and name.endswith("Model"):
            return model_class  # it has no head
    encoders: Any = transformers.MODEL_FOR_TEXT_ENCODING_MAPPING
    is_listed = type(config) in encoders
    return transformers.AutoModelForTextEncoding if is_listed else transformers.AutoModel


def _read(*path: str | os.PathLike[str]) -> Any:
    file = os.path.join(*path)
    if not os.path.isfile(file):
        return None
    with open(file, encoding="utf-8") as opened:
        return parse_json(opened.read())


POOLINGS = ("mean", "cls", "last")
_NAMES = {"mean": "mean", "cls": "cls", "lasttoken": "last"}  # names of sentence-transformers
_PLAIN = ("Transformer", "Pooling", "Normalize")  # the norm does not change a cosine


def pool_states(
    states: Float[Tensor, "text token d_model"], real: Bool[Tensor, "text token"], kind: str
) -> Float[Tensor, "text d_model"]:
    """Pool token states into one vector for each text. `real` marks the tokens that are not
    padding, which come first.
    """
    if kind == "cls":
        return states[:, 0]
    if kind == "last":
        return states[torch.arange(len(states), device=states.device), real.sum(1) - 1]
    weights = real.to(states.dtype)
    return (states * weights[..., None]).sum(1) / weights.sum(1, keepdim=True)


def pooling_of(model: nn.Module, pooling: str | None) -> str:
    """Return the pooling, by default the one that the model was trained with."""
    if pooling is not None:
        if pooling not in POOLINGS:
            raise InvalidInput(
                f"Unknown pooling {pooling!r}. Choose one of: {', '.join(POOLINGS)}."
            )
        return pooling
    stored = _from_files(str(getattr(model.config, "_name_or_path", "")))
    if stored is None:
        raise InvalidInput(
            "The pooling of this model is unknown. Set `pooling` to "
            f"{', '.join(POOLINGS[:-1])} or {POOLINGS[-1]}."
        )
    return stored


def _from_files(name: str) -> str | None:
    if not os.path.isdir(name):
        return None
    other = [kind for kind, _ in embedding_steps(name) if kind not in _PLAIN]
    if other:
        raise UnsupportedModel(
            f"{', '.join(other)} follows the pooling of this encoder, so the pooled states "
            "are not its embedding. Set `pooling` to explain the pooled states"
        )
    settings = read_settings(name, "1_Pooling", "config.json")
    if not settings:
        return None
    _require_plain_texts(name)
    return _kind(settings)


def _require_plain_texts(name: str) -> None:
    """Raise `UnsupportedModel` if the encoder adds a prompt, lowercases texts or truncates
    embeddings.
    """
    texts = read_settings(name, "config_sentence_transformers.json")
    prompt = (texts.get("prompts") or {}).get(texts.get("default_prompt_name"))
    spelling = read_settings(name, "sentence_bert_config.json").get("do_lower_case")
    if prompt or spelling or texts.get("truncate_dim"):
        described = f"the prompt {prompt!r}" if prompt else "its own settings"
        raise UnsupportedModel(
            f"this encoder was saved with {described}, which changes its embeddings. Load it with "
            "sentence_transformers.SentenceTransformer and pass that to Lens, or set "
            "`pooling` to explain the plain text"
        )


def require_saved_cosine(model: nn.Module) -> None:
    """Raise `UnsupportedModel` if a saved encoder does not compare embeddings by their cosine."""
    name = str(getattr(model.config, "_name_or_path", ""))
    if os.path.isdir(name):
        compared = read_settings(name, "config_sentence_transformers.json").get(SIMILARITY)
        require_cosine(compared, [kind for kind, _ in embedding_steps(name)])


def require_cosine(compared: Any, steps: Sequence[str]) -> None:
    """Raise `UnsupportedModel` unless `compared`, a setting of sentence-transformers, is the
    cosine, or the dot product of embeddings that the last of the `steps` normalises.
    """
    if compared in (None, "cosine") or (compared == "dot" and steps[-1:] == ["Normalize"]):
        return
    raise UnsupportedModel(
        f"this encoder compares embeddings by {SIMILARITY}={compared!r}, but of=similarity "
        f"explains their cosine. Set {SIMILARITY} of the SentenceTransformer to 'cosine' or set "
        "`pooling` to explain the cosine, or pass of=embedding"
    )


def length_limit(model: nn.Module) -> int | None:
    """Return the maximum number of tokens of a saved encoder, or None if its files do not state
    it.
    """
    name = str(getattr(model.config, "_name_or_path", ""))
    return read_settings(name, "sentence_bert_config.json").get("max_seq_length")


def _kind(settings: Mapping[str, Any]) -> str | None:
    """Return the pooling from the settings of sentence-transformers, in the old or the new format.

    Return None if several poolings are combined.
    """
    modes = settings.get("pooling_mode")
    if modes is None:
        names = {"cls_token": "cls", "mean_tokens": "mean", "lasttoken": "lasttoken"}
        modes = [
            names.get(key.removeprefix("pooling_mode_"), key)
            for key, value in settings.items()
            if key.startswith("pooling_mode_") and value is True
        ]
    modes = [modes] if isinstance(modes, str) else list(modes)
    return _NAMES.get(modes[0]) if len(modes) == 1 else None
