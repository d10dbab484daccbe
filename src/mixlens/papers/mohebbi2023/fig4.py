"""Mohebbi et al. (2023), figure 4 and appendices A.5 to A.18: the scores of the masked word by
layer, with and without rollout.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from mixlens.evaluating.case import Case
from mixlens.maps.one_row import roll_out_absolute, shares
from mixlens.measures import refusal
from mixlens.papers.contracts import ExperimentSpec, Outcome, Setting
from mixlens.papers.mohebbi2023 import paper
from mixlens.views import figures

SPEC = ExperimentSpec(
    title=(
        "contribution of each token to the masked word by layer and measure, for single "
        "layers and for the rollout"
    ),
    finding=(
        "Value Zeroing has its largest scores at the cue; attention and similar measures have"
        " them at special tokens, punctuation or the mask itself"
    ),
    kinds=("agreement",),
    data="single sentences of the five BLiMP paradigms",
    files=paper.FILES,
    models=paper.MODELS,
    needs="language",
    cost="every measure once for each text",
    also=tuple(f"figA{number}" for number in range(5, 19)),
    texts=4,
)

MEASURES = (
    "attention",
    "attention_norm",
    "attention_norm_res_ln",
    "globenc",
    "alti",
    "value_zeroing",
)


def run(setting: Setting) -> Outcome:
    """Plot a few texts for every measure."""
    observations = setting.observe({"maps": _maps})
    plots, tables = {}, []
    for number, answer in enumerate(observations.answers["maps"], 1):
        figure, places = figures.panels(
            len(answer["scores"]),
            columns=len(answer["scores"]) // 2,
            width=3.4,
            height=0.3 * len(answer["tokens"]) + 1.2,
        )
        for place, (name, how, values) in zip(places, answer["scores"], strict=True):
            columns = [str(layer) for layer in range(len(values))]
            figures.heat_map(
                values.T,
                answer["tokens"],
                columns,
                title=f"{name}{how}",
                x_label="layer",
                y_label="",
                axes=place,
            )
        plots[f"text{number}"] = figure
        tables += [
            {
                "text": number,
                "measure": name,
                "rollout": bool(how),
                "layer": layer,
                "token": token,
                "share": float(value),
            }
            for name, how, values in answer["scores"]
            for layer, layer_values in enumerate(values)
            for token, value in zip(answer["tokens"], layer_values, strict=True)
        ]
    return Outcome({"rows": pd.DataFrame(tables)}, plots, {}, [], observations.skipped)


def _maps(case: Case) -> dict[str, object]:
    scores: list[tuple[str, str, np.ndarray]] = []
    allowed = [name for name in MEASURES if refusal(name, case.recording.structure) is None]
    for how in ("", " + rollout"):
        for name in allowed:
            rolled = (
                roll_out_absolute(case.maps(name)).row(case.target).scores
                if how
                else case.layer_rows(name)
            )
            scores.append((name, how, shares(rolled)))
    marks = {token for tokens in case.cues for token in tokens}
    tokens = [
        f"» {label}" if place in marks else label for place, label in enumerate(case.row.labels)
    ]
    return {"tokens": tokens, "scores": scores}
