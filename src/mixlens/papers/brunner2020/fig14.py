"""Brunner et al. (2020), figures 14 to 17: can the neighbours of a token be identified from its
hidden state?
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from mixlens.evaluations import token_identifiability
from mixlens.papers.brunner2020 import paper
from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting
from mixlens.views import figures

SPEC = ExperimentSpec(
    title=(
        "fraction of tokens whose state identifies the token k positions before or after it, "
        "by layer"
    ),
    finding=(
        "a state identifies neighbouring tokens better than chance; the rate decreases with "
        "distance and depth, and differs between left and right"
    ),
    kinds=("text",),
    data=paper.DATA,
    files=paper.FILES,
    own_files=paper.FILES,
    also=("fig15", "fig16", "fig17"),
    cost="one forward pass for each text, then a probe for each layer, offset and fold",
)

OFFSETS = (-3, -2, -1, 1, 2, 3)


def run(
    setting: Setting, *, probe: str = "linear", metric: str = "cosine", folds: int = 10
) -> Outcome:
    """Train one probe for each layer and offset. `folds` is the number of cross-validation
    folds.
    """
    observations = setting.observe({"states": token_identifiability.observe})
    options = paper.probe_options(setting, probe=probe, metric=metric, folds=folds)
    layers, chance = {}, {}
    for offset in setting.track(OFFSETS):
        details = token_identifiability.conclude(
            observations.answers["states"], offset=offset, **options
        ).details
        layers[f"{offset:+d}"], chance[f"{offset:+d}"] = (
            np.asarray(details["layers"]),
            float(details["chance"]),
        )
    table = pd.DataFrame({"layer": np.arange(len(layers["+1"])), **layers})
    near, far = (
        np.mean([layers[key][1:].max() for key in keys]) for keys in (("-1", "+1"), ("-3", "+3"))
    )
    findings = [
        Finding(
            "direct neighbours can be identified above chance",
            bool(near > 1.5 * chance["+1"]),
            f"{near:.2f}, chance {chance['+1']:.2f}",
        ),
        Finding(
            "neighbours three places away can be identified less often",
            bool(far < near),
            f"{far:.2f}",
        ),
    ]
    figure = figures.lines(
        layers,
        x=table.layer,
        title="telling the token k places away",
        y_label="share of tokens identified",
    )
    return Outcome(
        {"by_layer": table},
        {"fig14": figure},
        {},
        findings,
        observations.skipped,
        f"Chance: {chance['+1']:.3f}.",
    )
