"""Kobayashi et al. (2020), figure 3: weights and norms of special tokens and punctuation by
layer.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from mixlens.evaluations import norm_statistics
from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting
from mixlens.papers.kobayashi2020 import paper
from mixlens.views import figures

SPEC = ExperimentSpec(
    title=(
        "mean weight and mean |alpha f(x)| on [CLS], [SEP], punctuation and other tokens by layer"
    ),
    finding="special tokens and punctuation get large weights and small norms",
    kinds=("text",),
    longest=paper.LONGEST,
    data=paper.DATA,
    files=paper.FILES,
    texts=paper.TEXTS,
)


def run(setting: Setting) -> Outcome:
    """Return the fraction of attention weights and of norms that falls on each category.

    Both are averaged over heads.
    """
    observations = setting.observe({"norms": norm_statistics.observe})
    details = norm_statistics.conclude(observations.answers["norms"], seed=setting.seed).details
    names = list(details["categories"])
    shares = {}
    for side, key in (("weight", "category_weight"), ("norm", "category_norm")):
        totals = np.asarray(details[key]).mean(1)  # layer, category: mean over heads
        shares[side] = totals / totals.sum(-1, keepdims=True)
    rows = [
        {
            "layer": layer,
            "category": name,
            "share of weight": shares["weight"][layer, i],
            "share of norm": shares["norm"][layer, i],
        }
        for layer in range(len(shares["weight"]))
        for i, name in enumerate(names)
    ]
    figure, places = figures.panels(2, columns=2)
    for place, (side, title) in zip(
        places, (("weight", "attention weight"), ("norm", "|alpha f(x)|")), strict=True
    ):
        figures.lines(
            {name: shares[side][:, i] for i, name in enumerate(names)},
            title=title,
            y_label="share",
            axes=place,
        )
    marks = [names.index(name) for name in ("cls", "sep", "punctuation")]
    weight, norm = (float(shares[side][:, marks].sum(-1).mean()) for side in ("weight", "norm"))
    finding = Finding(
        "special tokens and punctuation have less of the norm than of the weight",
        norm < weight if weight > 0 else None,
        f"{norm:.2f} against {weight:.2f}",
    )
    return Outcome(
        {"by_layer": pd.DataFrame(rows)}, {"fig3": figure}, {}, [finding], observations.skipped
    )
