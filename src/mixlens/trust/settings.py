"""What a run was made with: model, data, measures, evaluations, options, versions. Runs with different settings are not mixed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.corpus.dataset import Dataset
from mixlens.provenance import model_name, versions

if TYPE_CHECKING:
    from mixlens.lens import Lens
    from mixlens.trust.plan import Plan

_SAMPLED = 256  # entries of each weight that are looked at


def settings_of(lens: Lens, data: Dataset, plan: Plan, *, other: Lens | None = None, seed: int = 0) -> dict[str, Any]:
    """Plain values, ready for JSON."""
    return {
        "model": model_name(lens.model), **{f"model {key}": value for key, value in _model(lens).items()},
        "other model": None if other is None else model_name(other.model),
        "other model weights": None if other is None else _model(other)["weights"],
        "data": data.name, "kind": data.kind, "texts": len(data), "data hash": _data_hash(data),
        "measures": list(plan.measures), "evaluations": [*plan.of_measures, *plan.of_model, *plan.own],
        "options": {name: {key: str(value) for key, value in chosen.items()} for name, chosen in plan.options.items()},
        "seed": seed,
        "versions": {**versions(), "numpy": np.__version__},
    }  # fmt: skip


def _model(lens: Lens) -> Mapping[str, str]:
    """A folder may hold other weights tomorrow: a few entries of each tensor tell them apart."""
    found = hashlib.sha256()
    for name, weight in lens.model.named_parameters():
        flat = weight.detach().reshape(-1)
        taken = flat[:: max(1, flat.numel() // _SAMPLED)].double().cpu().numpy()
        found.update(f"{name} {tuple(weight.shape)} {weight.dtype}".encode() + taken.tobytes())
    first = next(lens.model.parameters())
    return {"weights": found.hexdigest()[:16], "dtype": str(first.dtype).removeprefix("torch."), "device": first.device.type}


def _data_hash(data: Dataset) -> str:
    found = hashlib.sha256()
    for example in data.examples:
        fields = {key: sorted(value) if isinstance(value, frozenset) else value for key, value in vars(example).items()}
        found.update(repr((example.kind, sorted(fields.items()))).encode())
    return found.hexdigest()[:16]
