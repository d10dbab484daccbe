"""Record the provenance of scores: measure, options, citation, model, versions.

All values are plain JSON values.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import transformers

import mixlens
from mixlens.contracts import AttentionKind, Request, Spec
from mixlens.model.distributed import is_spread, whole
from mixlens.model.loading import newly_initialised
from mixlens.text.answer_tokens import is_chosen

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording

_SAMPLED = 256  # sampled entries of each weight


def provenance_of(
    name: str, spec: Spec, recording: Recording, request: Request, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the provenance of scores. Options that were not passed are listed with their defaults.

    The entry `recorded` is "rows" if only the requested targets were computed. Otherwise, it is
    "maps", followed by the reason why all targets were computed, if it is known.
    """
    model = recording.model
    config = getattr(model, "config", None)
    defaults = {option.name: option.default for option in spec.options}
    if is_chosen(options.get("answer")):
        defaults["of"] = spec.explains_of_answer
    return {
        "measure": name,
        "options": plain({**defaults, **options}),
        "citation": spec.citation,
        "site": request.site,
        "kind": request.kind,
        "model": type(model).__name__,
        "name": getattr(config, "_name_or_path", None) or None,
        "revision": getattr(config, "_commit_hash", None),
        "dtype": str(next(model.parameters()).dtype).removeprefix("torch."),
        "versions": versions(),
        "recorded": _recorded(recording),
        **_target_names(recording, request),
        "steps": [],
    }


def _target_names(recording: Recording, request: Request) -> dict[str, str]:
    """Return which tokens label the targets of a decoder.

    These are either the tokens that the decoder reads or the tokens that it produces.
    """
    last = recording.structure.stack_of(request.site) is recording.last_stack
    if recording.produced is not None and last:
        return {"target_names": "the token produced"}
    cross = request.kind is AttentionKind.CROSS
    return {"target_names": "the token read"} if cross else {}


def _recorded(recording: Recording) -> str:
    if not recording.is_kept:
        return "rows"
    return "maps" if recording.not_cut is None else f"maps: {recording.not_cut}"


def versions() -> dict[str, str]:
    """Return the versions of the packages that affect scores."""
    return {
        "mixlens": mixlens.__version__,
        "torch": str(torch.__version__),
        "transformers": transformers.__version__,
    }


def model_name(model: Any) -> str:
    """Return the hub name or folder from which a model was loaded, or the name of its class."""
    return str(getattr(model.config, "_name_or_path", None) or type(model).__name__)


def weights_digest(model: Any) -> str:
    """Return a hash of the model's weights, computed from a few entries of each tensor.

    The hash changes if the folder of the model later holds different weights. Weights that the
    checkpoint lacks (such as an unused pooler) are excluded, because transformers initialises them
    at random each time. If a model is spread over several processes, call this function in each of
    them.
    """
    digest, random_names = hashlib.sha256(), newly_initialised(model)
    for name, weight in model.named_parameters():
        if name in random_names:
            continue
        values = whole(weight) if is_spread(weight) else weight.detach()
        flat = values.reshape(-1)
        sample = flat[:: max(1, flat.numel() // _SAMPLED)].double().cpu().numpy()
        name = name.replace("._bias", ".bias")  # see `plain_shards.remove_exchange`
        digest.update(f"{name} {tuple(values.shape)} {values.dtype}".encode() + sample.tobytes())
    return digest.hexdigest()[:16]


def plain(value: Any, *, finite: bool = False) -> Any:
    """Convert a value to the closest JSON type.

    With `finite=True`, NaN and infinity become None, because JSON cannot represent them.
    """
    if isinstance(value, (np.ndarray, np.generic, torch.Tensor)):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) or not finite else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(entry, finite=finite) for key, entry in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(entry, finite=finite) for entry in value]
    return str(value)
