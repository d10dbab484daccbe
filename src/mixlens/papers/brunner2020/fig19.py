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
    seen = setting.observe({"maps": partial(_maps, probes=probes, seed=setting.seed)})
    drawn, rows = {}, []
    for number, (labels, scores) in enumerate(seen.answers["maps"], 1):
        own = np.diagonal(scores, axis1=1, axis2=2)
        chosen = sorted(np.argsort(own[0] - own[-1])[-words:])
        figure, places = figures.panels(
            len(chosen), columns=len(chosen), width=3.6, height=0.22 * len(labels) + 1.4
        )
        for place, target in zip(places, chosen, strict=True):
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
        drawn[f"text{number}"] = figure
    return Outcome({"contributions": pd.DataFrame(rows)}, drawn, {}, [], seen.skipped)


def _maps(case: Case, *, probes: int | None, seed: int) -> tuple[list[str], Any]:
    options = {} if probes is None else {"seed": seed}
    return (
        list(case.row.labels),
        case.maps("hidden_token_attribution", probes=probes, **options).scores,
    )
