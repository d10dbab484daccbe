"""Brunner et al. (2020), figures 11 to 13: identify the input of each layer from its output."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from mixlens.papers.brunner2020 import paper
from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting, verdict
from mixlens.views import figures

SPEC = ExperimentSpec(
    title="identifiability across single layers: from the output of each layer to its input",
    finding=(
        "each layer changes a token so little that the state itself identifies more than 0.92"
        " of the tokens, before and after fine-tuning"
    ),
    kinds=("text",),
    data=paper.DATA,
    files=paper.FILES,
    own_files=paper.FILES,
    also=("fig12", "fig13"),
    cost="one forward pass for each text, then a probe for each layer and fold",
    published={"bert-base-uncased": {"smallest rate of a layer, naive": 0.92}},
)


def run(
    setting: Setting,
    *,
    probes: Sequence[str] = ("naive", "linear"),
    metrics: Sequence[str] = ("cosine", "l2"),
    folds: int = 10,
) -> Outcome:
    """Train probes that map each layer's output back to the input of the same layer.

    `folds` is the number of cross-validation folds.
    """
    observations, layers = paper.rates(setting, probes, metrics, single=True, folds=folds)
    table = pd.DataFrame({"layer": np.arange(len(next(iter(layers.values())))), **layers})
    naive = min(
        (float(values.min()) for name, values in layers.items() if name.startswith("naive")),
        default=float("nan"),
    )
    finding = Finding(
        "one layer never moves most tokens away from themselves",
        verdict(naive > 0.9, naive),
        f"smallest rate {naive:.2f}",
    )
    figure = figures.lines(
        layers,
        x=table.layer,
        title="from each layer to its input",
        y_label="share of tokens identified",
    )
    return Outcome(
        {"by_layer": table},
        {"fig11": figure},
        {"smallest rate of a layer, naive": naive},
        [finding],
        observations.skipped,
    )
