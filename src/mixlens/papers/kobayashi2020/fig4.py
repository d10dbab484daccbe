"""Kobayashi et al. (2020), figures 4, 5 and 10 to 12: attention weights and norms of single heads,
side by side and as a scatter plot.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from mixlens.evaluating.case import Case
from mixlens.evaluations import norm_statistics
from mixlens.papers.contracts import ExperimentSpec, Outcome, Setting
from mixlens.papers.kobayashi2020 import paper
from mixlens.views import figures

SPEC = ExperimentSpec(
    title=(
        "heat maps of weight and of |alpha f(x)| for single heads, and a scatter plot of weight"
        " against |f(x)|"
    ),
    finding=(
        "heads with large weights on [CLS], [SEP] or punctuation add short vectors for these "
        "tokens; on other tokens, weights and norms agree"
    ),
    kinds=("text",),
    longest=paper.LONGEST,
    data=paper.DATA,
    files=paper.FILES,
    also=("fig5", "fig10", "fig11", "fig12"),
    texts=40,
)


def run(setting: Setting, *, heads: int = 3) -> Outcome:
    """Plot the maps of the shortest text.

    The heads are those with the largest weight on special tokens.
    """
    observations = setting.observe({"norms": norm_statistics.observe, "maps": _maps})
    weights, norms, labels, special = min(
        observations.answers["maps"], key=lambda details: len(details[2])
    )
    on_special = weights[..., special].sum(-1).mean(-1) if special else weights.max(-1).mean(-1)
    layer_heads = [
        np.unravel_index(place, on_special.shape)
        for place in np.argsort(-on_special, axis=None)[:heads]
    ]
    size = min(0.2 * len(labels) + 2.2, 7.0)
    figure, places = figures.panels(2 * len(layer_heads), columns=2, width=size, height=size)
    for number, (layer, head) in enumerate(layer_heads):
        for side, (what, values) in enumerate((("weight", weights), ("|alpha f(x)|", norms))):
            title = f"{what}, layer {layer}, head {head}"
            figures.heat_map(
                values[layer, head], labels, labels, title=title, axes=places[2 * number + side]
            )
    details = norm_statistics.conclude(observations.answers["norms"]).details
    pairs = details["pairs"]
    groups = [details["categories"][kind] for kind in pairs["category"]]
    scatter = figures.scatter(
        pairs["weight"],
        pairs["norm"],
        groups=groups,
        x_label="weight",
        y_label="|f(x)|",
        title="pairs of all heads",
    )
    return Outcome(
        {"pairs": pd.DataFrame({**pairs, "category": groups})},
        {"fig4": figure, "fig5": scatter},
        {},
        [],
        observations.skipped,
    )


def _maps(case: Case) -> tuple[np.ndarray, np.ndarray, list[str], list[int]]:
    special = [place for place, mark in enumerate(case.row.special or ()) if mark]
    weights = case.maps("attention", per_head=True).scores
    return (
        weights,
        case.maps("attention_norm", per_head=True).scores,
        list(case.row.labels),
        special,
    )
