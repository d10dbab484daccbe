"""Brunner et al. (2020), figures 2b and 8 to 10: train a probe on one layer, and test it on all
layers.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from mixlens.evaluations import token_identifiability
from mixlens.papers.brunner2020 import paper
from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting
from mixlens.views import figures

SPEC = ExperimentSpec(
    title="token identifiability of a probe that was trained on one layer and is tested on another",
    finding=(
        "a probe for the last layer identifies 94 % of the tokens there and more in lower "
        "layers; a probe for the first layer identifies less than 70 % in the last two layers"
    ),
    kinds=("text",),
    data=paper.DATA,
    files=paper.FILES,
    own_files=paper.FILES,
    also=("fig8", "fig9", "fig10"),
    cost="one forward pass for each text, then a probe for each layer and fold",
    published={"bert-base-uncased": {"trained and tested on the last layer": 0.94}},
)


def run(
    setting: Setting, *, probe: str = "linear", metric: str = "cosine", folds: int = 10
) -> Outcome:
    """Test the probe of every layer on the hidden states of every layer.

    `folds` is the number of cross-validation folds.
    """
    observations = setting.observe({"states": token_identifiability.observe})
    options = paper.probe_options(setting, probe=probe, metric=metric, folds=folds)
    cross = np.asarray(
        token_identifiability.conclude(
            observations.answers["states"], across=True, **options
        ).details["cross"]
    )
    rows = [
        {"trained on": a, "tested on": b, "rate": float(cross[a, b])}
        for a, b in np.ndindex(*cross.shape)
    ]
    names = [str(layer) for layer in range(len(cross))]
    lines = {
        f"trained on {layer}": cross[layer]
        for layer in sorted({1, len(cross) // 2, len(cross) - 1})
    }
    plots = {
        "fig2b": figures.lines(
            lines,
            x=range(len(cross)),
            x_label="tested on state (0: the input)",
            y_label="share of tokens identified",
        ),
        "all_layers": figures.heat_map(
            cross, names, names, x_label="tested on", y_label="trained on", scale=(0, 1)
        ),
    }
    middle, first = float(cross[-1, len(cross) // 2]), float(cross[1, -1])
    findings = [
        Finding(
            "the probe of the last layer works better below",
            (
                middle > cross[-1, -1] + 0.005 if cross[-1, -1] < 0.99 else None
            ),  # no gain is possible at the maximum
            f"{middle:.2f} in the middle, {cross[-1, -1]:.2f} at the top",
        ),
        Finding("the probe of the first layer fails at the top", first < 0.7, f"{first:.2f}"),
    ]
    measured = {"trained and tested on the last layer": float(cross[-1, -1])}
    return Outcome({"rates": pd.DataFrame(rows)}, plots, measured, findings, observations.skipped)
