"""Brunner et al. (2020), figure 3b: how many tokens are not their own largest contributor?"""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd

from mixlens.evaluations import context_contribution
from mixlens.papers.brunner2020 import paper
from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting
from mixlens.views import figures

SPEC = ExperimentSpec(
    title="fraction of tokens for which another token contributes more, by layer",
    finding=(
        "no tokens in the first three layers, 18 % in the middle layers and 30 % in the last "
        "two layers"
    ),
    kinds=("text",),
    data=paper.DATA,
    files=paper.FILES,
    own_files=paper.FILES,
    cost=paper.ATTRIBUTION_COST,
    published={"bert-base-uncased": {"first layer": 0.0, "middle layer": 0.18, "last layer": 0.30}},
)


def run(setting: Setting, *, probes: int | None = 32) -> Outcome:
    """Run the experiment.

    `probes` is the number of random probes per source token of Hidden Token Attribution. With None,
    it is computed exactly.
    """
    observations = setting.observe(
        {"shares": partial(context_contribution.observe, probes=probes, seed=setting.seed)}
    )
    layers = np.asarray(
        context_contribution.conclude(observations.answers["shares"]).details["not_largest"]
    )
    table = pd.DataFrame({"layer": np.arange(len(layers)), "share": layers})
    measured = {
        "first layer": float(layers[0]),
        "middle layer": float(layers[(len(layers) - 1) // 2]),
        "last layer": float(layers[-1]),
    }
    finding = Finding(
        "tokens lose themselves with depth",
        bool(layers[-1] > layers[0]),
        f"{layers[0]:.3f} to {layers[-1]:.3f}",
    )
    figure = figures.lines(
        {"share": layers},
        title="tokens that are not their own largest contributor",
        y_label="share",
    )
    return Outcome(
        {"by_layer": table}, {"fig3b": figure}, measured, [finding], observations.skipped
    )
