"""Brunner et al. (2020), figure 4: how do contributions depend on the distance between tokens?"""

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
        "contribution by distance in groups per layer, and by offset for the first, the middle and"
        " the last layer"
    ),
    finding="most context is local, and the contribution of distant tokens grows with depth",
    kinds=("text",),
    data=paper.DATA,
    files=paper.FILES,
    own_files=paper.FILES,
    cost=paper.ATTRIBUTION_COST,
)


def run(setting: Setting, *, probes: int | None = 32) -> Outcome:
    """Run the experiment.

    `probes` is the number of random probes per source token of Hidden Token Attribution. With None,
    it is computed exactly.
    """
    observations = setting.observe(
        {"shares": partial(context_contribution.observe, probes=probes, seed=setting.seed)}
    )
    details = context_contribution.conclude(observations.answers["shares"]).details
    groups = np.asarray(details["by_distance"])
    context = groups / groups.sum(1, keepdims=True)
    names = [
        f"{a}" if a == b else f"{a}+" if b is None else f"{a}-{b}" for a, b in details["distances"]
    ]
    table = pd.DataFrame(
        {
            "layer": np.arange(len(groups)),
            **{name: context[:, i] for i, name in enumerate(names)},
        }
    )
    layer_numbers = sorted({0, (len(groups) - 1) // 2, len(groups) - 1})
    offsets = {
        f"layer {layer}": np.asarray(details["by_offset_total"])[layer] for layer in layer_numbers
    }
    places = np.asarray(details["offsets"])
    by_offset = pd.DataFrame({"offset": places, **offsets})
    near = places != 0
    plots = {
        "by_distance": figures.stack_bars(
            {name: context[:, i] for i, name in enumerate(names)},
            x=table.layer,
            title="share of the context by distance",
        ),
        "by_offset": figures.lines(
            {name: values[near] for name, values in offsets.items()},
            x=places[near],
            x_label="offset",
            y_label="contribution",
        ),
    }
    far = context[:, 4:].sum(1)
    findings = [
        Finding(
            "in the first layer most of the context is at most 5 tokens away",
            bool(far[0] < 0.5),
            f"{1 - far[0]:.2f}",
        ),
        Finding(
            "distant tokens (6 and more) give more with depth",
            bool(far[-1] > far[0]),
            f"{far[0]:.2f} to {far[-1]:.2f}",
        ),
    ]
    return Outcome(
        {"by_distance": table, "by_offset": by_offset}, plots, {}, findings, observations.skipped
    )
