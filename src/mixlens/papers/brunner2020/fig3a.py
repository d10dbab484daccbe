"""Brunner et al. (2020), figure 3a: how much does a token's own input contribute to its hidden
state?
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd

from mixlens.evaluations import context_contribution
from mixlens.papers.brunner2020 import paper
from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting
from mixlens.views import figures

SPEC = ExperimentSpec(
    title=(
        "contribution of the input token to its own hidden state by layer (Hidden Token"
        " Attribution)"
    ),
    finding=(
        "the median contribution is 30.6 % in the first layer, 14.4 % in the middle and 10.7 "
        "% in the last layer, so hidden states consist mostly of context"
    ),
    kinds=("text",),
    data=paper.DATA,
    files=paper.FILES,
    own_files=paper.FILES,
    cost=paper.ATTRIBUTION_COST,
    published={
        "bert-base-uncased": {
            "median, first layer": 0.306,
            "median, middle layer": 0.144,
            "median, last layer": 0.107,
        }
    },
)


def run(setting: Setting, *, probes: int | None = 32) -> Outcome:
    """Run the experiment.

    `probes` is the number of random probes for each source token in Hidden Token Attribution. If
    `probes` is None, the attribution is computed exactly.
    """
    observations = setting.observe(
        {"shares": partial(context_contribution.observe, probes=probes, seed=setting.seed)}
    )
    shares = np.concatenate(
        [np.asarray(text["own"]) for text in observations.answers["shares"]], 1
    )  # layer, token
    quartiles = np.asarray(
        context_contribution.conclude(observations.answers["shares"]).details["own"]
    ).T
    table = pd.DataFrame(
        {
            "layer": np.arange(len(shares)),
            "lower quartile": quartiles[0],
            "median": quartiles[1],
            "upper quartile": quartiles[2],
        }
    )
    medians = quartiles[1]
    measured = {
        "median, first layer": float(medians[0]),
        "median, middle layer": float(medians[(len(medians) - 1) // 2]),
        "median, last layer": float(medians[-1]),
    }
    finding = Finding(
        "the own share falls with depth",
        bool(medians[-1] < medians[0]),
        f"{medians[0]:.3f} to {medians[-1]:.3f}",
    )
    groups = {str(layer): values for layer, values in enumerate(shares)}
    figure = figures.boxes(groups, title="own contribution of every token", y_label="share")
    return Outcome(
        {"by_layer": table}, {"fig3a": figure}, measured, [finding], observations.skipped
    )
