"""What a run was made with: model, data, measures, evaluations, options, versions.

Runs with different settings are not mixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.corpus.dataset import Dataset, digest
from mixlens.provenance import model_name, versions, weights_digest

if TYPE_CHECKING:
    from mixlens.lens import Lens
    from mixlens.trust.plan import Plan


def settings_of(
    lens: Lens, data: Dataset, plan: Plan, *, other: Lens | None = None, seed: int = 0
) -> dict[str, Any]:
    """Plain values, ready for JSON."""
    return {
        "model": model_name(lens.model),
        **{f"model {key}": value for key, value in _model(lens).items()},
        "other model": None if other is None else model_name(other.model),
        "other model weights": None if other is None else _model(other)["weights"],
        "data": data.name,
        "kind": data.kind,
        "texts": len(data),
        "data hash": digest(data.examples),
        "measures": list(plan.measures),
        "evaluations": [*plan.of_measures, *plan.of_model, *plan.own],
        "options": {
            name: {key: str(value) for key, value in chosen.items()}
            for name, chosen in plan.options.items()
        },
        "seed": seed,
        "versions": {**versions(), "numpy": np.__version__},
    }


def _model(lens: Lens) -> Mapping[str, str]:
    first = next(lens.model.parameters())
    return {
        "weights": weights_digest(lens.model),
        "dtype": str(first.dtype).removeprefix("torch."),
        "device": first.device.type,
    }
