"""Where numbers come from: measure, options, citation, model, versions.

Plain JSON values, ready to be saved.
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
from mixlens.model.loading import newly_initialised

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording

_SAMPLED = 256  # entries of each weight that are looked at


def provenance_of(
    name: str, spec: Spec, recording: Recording, request: Request, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Options that were not given are listed with their defaults.

    `recorded` says whether the named targets were taken apart by themselves ("rows"), or why not.
    """
    model = recording.model
    config = getattr(model, "config", None)
    return {
        "measure": name,
        "options": plain({**{option.name: option.default for option in spec.options}, **options}),
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
    """How targets are named where a decoder both reads and produces tokens."""
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
    """Of the packages that numbers come from."""
    return {
        "mixlens": mixlens.__version__,
        "torch": str(torch.__version__),
        "transformers": transformers.__version__,
    }


def model_name(model: Any) -> str:
    """By what a model was loaded, a hub name or a folder; its class if it was built."""
    return str(getattr(model.config, "_name_or_path", None) or type(model).__name__)


def weights_digest(model: Any) -> str:
    """A folder may hold other weights tomorrow: a few entries of each tensor tell them apart.

    Weights that the checkpoint lacks (such as an unused pooler) are left out: transformers draws
    them anew at each load.
    """
    digest, drawn = hashlib.sha256(), newly_initialised(model)
    for name, weight in model.named_parameters():
        if name in drawn:
            continue
        flat = weight.detach().reshape(-1)
        taken = flat[:: max(1, flat.numel() // _SAMPLED)].double().cpu().numpy()
        digest.update(f"{name} {tuple(weight.shape)} {weight.dtype}".encode() + taken.tobytes())
    return digest.hexdigest()[:16]


def plain(value: Any, *, finite: bool = False) -> Any:
    """The nearest JSON value: what is saved is what was there before.

    With `finite`, a number that is not finite becomes None, since JSON has no word for it.
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
