"""Kobayashi et al. (2020), tables 1 and 4: variation of the norms of transformed vectors and of
attention inputs.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from mixlens.evaluations import norm_statistics
from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting
from mixlens.papers.kobayashi2020 import paper
from mixlens.views import figures

SPEC = ExperimentSpec(
    title="mean, spread and coefficient of variation of |f(x)| per head, and of |x| per layer",
    finding=(
        "|f(x)| varies more (mean CV 0.22, up to 0.37 in one head) than |x| (0.12), so the "
        "weights alone do not describe the mixing"
    ),
    kinds=("text",),
    longest=paper.LONGEST,
    data=paper.DATA,
    files=paper.FILES,
    also=("table4",),
    texts=paper.TEXTS,
    published={
        "bert-base-uncased": {
            "mean CV of |f(x)|": 0.22,
            "mean CV of |x|": 0.12,
            "largest CV of a head": 0.37,
            "smallest CV of a head": 0.12,
        }
    },
)


def run(setting: Setting) -> Outcome:
    """Return the statistics of norms over all tokens of all texts."""
    observations = setting.observe({"norms": norm_statistics.observe})
    details = norm_statistics.conclude(observations.answers["norms"], seed=setting.seed).details
    cv = np.asarray(details["f"]["cv"])
    heads = [
        {
            "layer": layer,
            "head": head,
            **{
                key: float(details["f"][key][layer, head])
                for key in ("mean", "std", "cv", "max", "min")
            },
        }
        for layer, head in np.ndindex(*cv.shape)
    ]
    layers = pd.DataFrame(
        {
            "layer": np.arange(len(cv)),
            **{key: details["x"][key] for key in ("mean", "std", "cv", "max", "min")},
        }
    )
    input_variation = np.asarray(details["x"]["cv"])
    measured = {
        "mean CV of |f(x)|": float(np.nanmean(cv)),
        "mean CV of |x|": float(np.nanmean(input_variation)),
        "largest CV of a head": float(np.nanmax(cv)),
        "smallest CV of a head": float(np.nanmin(cv)),
    }
    more = measured["mean CV of |f(x)|"] > measured["mean CV of |x|"]
    numbers = f"{measured['mean CV of |f(x)|']:.2f} against {measured['mean CV of |x|']:.2f}"
    labels = [str(head) for head in range(cv.shape[1])]
    figure = figures.heat_map(
        cv,
        [str(i) for i in range(len(cv))],
        labels,
        title="CV of |f(x)|",
        x_label="head",
        y_label="layer",
    )
    finding = Finding("|f(x)| varies more than |x|", bool(more), numbers)
    return Outcome(
        {"heads": pd.DataFrame(heads), "layers": layers},
        {"table1": figure},
        measured,
        [finding],
        observations.skipped,
    )
