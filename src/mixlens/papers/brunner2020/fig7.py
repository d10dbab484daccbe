"""Brunner et al. (2020), figure 7: do probes overfit, and does more data help?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from mixlens.evaluations import token_identifiability
from mixlens.papers.brunner2020 import paper
from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting
from mixlens.views import figures

SPEC = ExperimentSpec(
    title=(
        "identification rates on training and test texts (L2), and of an MLP in the second-"
        "to-last layer by fraction of the training data"
    ),
    finding=(
        "with 50, 80, 90 and 100 % of the data, an MLP on the second-to-last layer identifies"
        " 0.74, 0.80, 0.81 and 0.82 of the tokens, so more data would help further"
    ),
    kinds=("text",),
    data=paper.DATA,
    files=paper.FILES,
    own_files=paper.FILES,
    cost="one forward pass for each text, then several probes for each layer and fold",
    published={"bert-base-uncased": {"50 %": 0.74, "80 %": 0.80, "90 %": 0.81, "100 %": 0.82}},
)

SHARES = (0.5, 0.8, 0.9, 1.0)


def run(
    setting: Setting,
    *,
    probes: Sequence[str] = ("linear", "mlp"),
    learner: str = "mlp",
    folds: int = 10,
) -> Outcome:
    """Run the experiment.

    `learner` is the probe that is trained on growing fractions of the data. `folds` is the number
    of cross-validation folds.
    """
    observations = setting.observe({"states": token_identifiability.observe})
    states = observations.answers["states"]
    options: dict[str, Any] = {
        "metric": "l2",
        "folds": folds,
        "seed": setting.seed,
        "training": paper.training(setting),
    }
    curves: dict[str, np.ndarray] = {}
    for probe in setting.track(probes):
        details = token_identifiability.conclude(states, probe=probe, **options).details
        curves |= {
            f"{probe}, test": np.asarray(details["layers"]),
            f"{probe}, training": np.asarray(details["train_layers"]),
        }
    below = [
        {"states": seen_text["states"][[0, -2]], "layer": seen_text["layer"][[0, -2]]}
        for seen_text in states
    ]
    more = [
        token_identifiability.conclude(below, probe=learner, share=share, **options).value
        for share in setting.track(SHARES)
    ]
    by_layer = pd.DataFrame({"layer": np.arange(len(next(iter(curves.values())))), **curves})
    by_share = pd.DataFrame({"share of the training data": SHARES, "rate": more})
    plots = {
        "train_and_test": figures.lines(
            curves, x=by_layer.layer, y_label="share of tokens identified"
        ),
        "data": figures.lines(
            {learner: more},
            x=SHARES,
            x_label="share of the training data",
            y_label="share of tokens identified",
        ),
    }
    grows = more[-1] > more[0] if more[0] < 0.99 else None  # no gain is possible at the maximum
    finding = Finding(
        "more training data identifies more tokens", grows, f"{more[0]:.2f} to {more[-1]:.2f}"
    )
    measured = {f"{round(100 * share)} %": rate for share, rate in zip(SHARES, more, strict=True)}
    return Outcome(
        {"by_layer": by_layer, "by_share": by_share},
        plots,
        measured,
        [finding],
        observations.skipped,
    )
