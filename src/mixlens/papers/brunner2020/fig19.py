"""Brunner et al. (2020), figures 19 to 25: how selected words collect context from layer to
layer.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from mixlens.evaluating.case import Case
from mixlens.papers.brunner2020 import paper
from mixlens.papers.contracts import ExperimentSpec, Outcome, Setting
from mixlens.views import figures

SPEC = ExperimentSpec(
    title="contributions of all input tokens to a few words over the layers",
    finding=(
        "words mix in context gradually, and in different ways; some keep most of their own "
        "content, others do not"
    ),
    kinds=("text",),
    data="a few sentences of MRPC",
    files=paper.FILES,
    also=tuple(f"fig{number}" for number in range(20, 26)),
    cost="Hidden Token Attribution of a few texts",
    texts=3,
)


def run(setting: Setting, *, probes: int | None = 32, words: int = 3) -> Outcome:
    """Plot, for each text, the `words` words whose own contribution changes most between layers."""
    observations = setting.observe({"maps": partial(_maps, probes=probes, seed=setting.seed)})
    plots, rows = {}, []
    for number, (labels, scores) in enumerate(observations.answers["maps"], 1):
        self_scores = np.diagonal(scores, axis1=1, axis2=2)
        targets = sorted(np.argsort(self_scores[0] - self_scores[-1])[-words:])
        figure, places = figures.panels(
            len(targets), columns=len(targets), width=3.6, height=0.22 * len(labels) + 1.4
        )
        for place, target in zip(places, targets, strict=True):
            layers = [str(layer) for layer in range(len(scores))]
            figures.heat_map(
                scores[:, target].T,
                labels,
                layers,
                title=f"{labels[target]} ({target})",
                x_label="layer",
                y_label="",
                axes=place,
            )
            rows += [
                {
                    "text": number,
                    "word": labels[target],
                    "layer": layer,
                    "source": label,
                    "contribution": float(scores[layer, target, i]),
                }
                for layer in range(len(scores))
                for i, label in enumerate(labels)
            ]
        plots[f"text{number}"] = figure
    return Outcome({"contributions": pd.DataFrame(rows)}, plots, {}, [], observations.skipped)


def _maps(case: Case, *, probes: int | None, seed: int) -> tuple[list[str], Any]:
    options = {} if probes is None else {"seed": seed}
    return (
        list(case.row.labels),
        case.maps("hidden_token_attribution", probes=probes, **options).scores,
    )
