"""Brunner et al. (2020), On identifiability in transformers: code that its figures share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mixlens.evaluations import token_identifiability
from mixlens.maps.token_identifiability import ProbeTraining
from mixlens.papers.contracts import Observations, Setting

DATA = "MRPC dev, 408 pairs"
FILES = ("glue/mrpc/dev.tsv", "mrpc/dev.tsv", "MRPC/dev.tsv")
ATTRIBUTION_COST = (
    "Hidden Token Attribution for each text: estimated with 32 probes; exact (option"
    " probes=none) n d_model tangents"
)


def rates(
    setting: Setting, probes: Sequence[str], metrics: Sequence[str], **options: Any
) -> tuple[Observations[str], dict[str, np.ndarray]]:
    """Return the identification rate of each probe and metric in every layer (0 is the input)."""
    observations = setting.observe({"states": token_identifiability.observe})
    by_layer = {}
    for name in setting.track([(probe, metric) for probe in probes for metric in metrics]):
        result = token_identifiability.conclude(
            observations.answers["states"],
            probe=name[0],
            metric=name[1],
            seed=setting.seed,
            training=training(setting),
            **options,
        )
        by_layer[", ".join(name)] = np.asarray(result.details["layers"])
    return observations, by_layer


def training(setting: Setting) -> ProbeTraining:
    """Return the paper's training options for probes, with the setting's seed and the model's
    device.
    """
    return ProbeTraining(
        seed=setting.seed, device=str(next(setting.lens.model.parameters()).device)
    )


def probe_options(setting: Setting, **options: Any) -> dict[str, Any]:
    """Return options for `token_identifiability.conclude`.

    The seed and the training options of the setting are added to `options`.
    """
    return {**options, "seed": setting.seed, "training": training(setting)}
