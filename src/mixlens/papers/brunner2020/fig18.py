"""Brunner et al. (2020), figure 18: contributions to [CLS] from the tokens around [CLS] and around
the first [SEP].
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd

from mixlens.errors import InvalidInput
from mixlens.evaluations import context_contribution
from mixlens.papers.brunner2020 import paper
from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting
from mixlens.views import figures

SPEC = ExperimentSpec(
    title="contribution to [CLS] by offset from [CLS] and from the first [SEP], by layer",
    finding="the contributions to [CLS] concentrate around [SEP]",
    kinds=("text",),
    data=paper.DATA,
    files=paper.FILES,
    own_files=paper.FILES,
    cost=paper.ATTRIBUTION_COST,
)


def run(setting: Setting, *, probes: int | None = 32, reach: int = 10) -> Outcome:
    """Plot the contributions to [CLS] from tokens at offsets up to `reach`.

    `probes` is the number of random probes for each source token in Hidden Token Attribution. If
    `probes` is None, the attribution is computed exactly.
    """
    observations = setting.observe(
        {"shares": partial(context_contribution.observe, probes=probes, seed=setting.seed)}
    )
    details = context_contribution.conclude(observations.answers["shares"], reach=reach).details
    places, around = (
        np.asarray(details["offsets"]),
        {key: np.asarray(details[f"cls_around_{key}"]) for key in ("cls", "sep")},
    )
    if np.isnan(around["cls"]).all():
        raise InvalidInput(
            "This tokenizer adds no [CLS] at the beginning of a text. Use a model with [CLS]."
        )
    layers = [str(layer) for layer in range(len(around["cls"]))]
    figure, axes = figures.panels(2, columns=2, width=5.6, height=0.3 * len(layers) + 1.8)
    rows = []
    for place, (key, values) in zip(axes, around.items(), strict=True):
        has_values = ~np.isnan(values).all(0)
        labels = [f"{offset:+d}" for offset in places[has_values]]
        figures.heat_map(
            values[:, has_values],
            layers,
            labels,
            title=f"around [{key.upper()}]",
            x_label="offset",
            y_label="layer",
            axes=place,
        )
        rows += [
            {
                "around": key,
                "layer": layer,
                "offset": int(places[i]),
                "contribution": float(values[layer, i]),
            }
            for layer in range(len(values))
            for i in np.flatnonzero(has_values)
        ]
    last, centre = around["sep"][-1], int(np.flatnonzero(places == 0)[0])
    at, away = (
        float(np.nanmean(last[centre - 1 : centre + 2])),
        float(np.nanmean(np.delete(last, range(centre - 1, centre + 2)))),
    )
    is_decided = at == at and away == away
    finding = Finding(
        "in the last layer [CLS] takes more from around [SEP] than from further away",
        at > away if is_decided else None,
        f"{at:.4f} against {away:.4f} for each token",
    )
    return Outcome(
        {"contributions": pd.DataFrame(rows)},
        {"fig18": figure},
        {},
        [finding],
        observations.skipped,
    )
