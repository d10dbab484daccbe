"""Kobayashi et al. (2020), figure 9: does the transformation f(x) scale all vectors equally?"""

from __future__ import annotations

import numpy as np
import pandas as pd

from mixlens.evaluations.norm_statistics import singular_values
from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting
from mixlens.views import figures

SPEC = ExperimentSpec(
    title="singular values of the affine map f of each head",
    finding=(
        "in every head, the largest singular value is at least 1.8 times the smallest, so f "
        "can change the length of a vector"
    ),
    kinds=(),
    data="none, only the weights",
    cost="one singular value decomposition for each head",
    published={"bert-base-uncased": {"smallest ratio of a head": 1.8}},
)


def run(setting: Setting) -> Outcome:
    """Compute the singular values from the weights of the model. No data are needed."""
    values = singular_values(setting.lens.record("The dog barks."))
    ratios = values.max(-1) / np.maximum(values.min(-1), 1e-30)
    rows = [
        {
            "layer": layer,
            "head": head,
            "number": number + 1,
            "singular value": float(values[layer, head, number]),
        }
        for layer, head, number in np.ndindex(*values.shape)
    ]
    smallest = float(ratios.min())
    columns = min(4, len(values))
    figure, places = figures.panels(len(values), columns=columns, width=3.4, height=2.4)
    for layer, place in enumerate(places):
        for head in values[layer]:
            place.plot(np.arange(1, len(head) + 1), np.sort(head)[::-1], linewidth=0.9)
        place.set_title(f"layer {layer}", fontsize=10)
    finding = Finding(
        "the largest singular value is at least 1.8 times the smallest in every head",
        smallest >= 1.8,
        f"smallest ratio {smallest:.2f}",
    )
    return Outcome(
        {"singular_values": pd.DataFrame(rows)},
        {"fig9": figure},
        {"smallest ratio of a head": smallest},
        [finding],
    )
