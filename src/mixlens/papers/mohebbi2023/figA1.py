"""Mohebbi et al. (2023), figure A.1: Value Zeroing with other distances and with normalised
representations.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from mixlens.evaluations import cue_alignment
from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting
from mixlens.papers.mohebbi2023 import paper
from mixlens.views import figures

SPEC = ExperimentSpec(
    title="cue alignment of Value Zeroing by the distance that compares the two outputs",
    finding=(
        "every distance, on raw or normalised representations, shows the same pattern over layers"
    ),
    kinds=("agreement",),
    data=paper.DATA,
    files=paper.FILES,
    own_files=paper.FILES,
    models=paper.MODELS,
    needs="language",
    cost="Value Zeroing five times for each text",
)

VARIANTS: dict[str, dict[str, Any]] = {
    "cosine": {},
    "euclidean": {"distance": "euclidean"},
    "spearman": {"distance": "spearman"},
    "cosine, normalised": {"normalised": True},
    "euclidean, normalised": {"distance": "euclidean", "normalised": True},
}


def run(setting: Setting) -> Outcome:
    """Run Value Zeroing with each distance, and evaluate it in each layer."""
    observe = partial(cue_alignment.observe, measure="value_zeroing")
    observations = setting.observe(
        {name: partial(observe, options=options) for name, options in VARIANTS.items()}
    )
    layers = {
        name: cue_alignment.conclude(answers).details["layers"]
        for name, answers in observations.answers.items()
    }
    table = pd.DataFrame({"layer": np.arange(len(layers["cosine"])), **layers})
    smallest = float(table.drop(columns="layer").corr().loc["cosine"].min())
    finding = Finding(
        "every distance shows the same pattern over layers",
        smallest > 0.8,
        f"smallest correlation {smallest:.2f}",
    )
    figure = figures.lines(
        layers, title="Value Zeroing: cue alignment by distance", y_label="dot product"
    )
    return Outcome({"by_layer": table}, {"figA1": figure}, {}, [finding], observations.skipped)
