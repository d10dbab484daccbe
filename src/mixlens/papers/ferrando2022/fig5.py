"""Ferrando et al. (2022), figures 5 and 8 to 10, tables 1 and 3 to 9: relevance by layer, and texts
with tokens shaded by the scores of each method.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from mixlens.errors import MixlensError
from mixlens.evaluating.case import Case
from mixlens.maps.one_row import roll_out_absolute
from mixlens.measures import ready_measures
from mixlens.papers.contracts import ExperimentSpec, Outcome, Setting
from mixlens.papers.ferrando2022 import paper
from mixlens.views import figures

SPEC = ExperimentSpec(
    title=(
        "relevance of the input tokens for the classified token over layers, and the text shaded by"
        " every method"
    ),
    finding=(
        "ALTI concentrates on words that determine the class, while the rollout of attention "
        "is nearly uniform or concentrates on special tokens"
    ),
    kinds=("classification",),
    data="single sentences of SST-2",
    files=("glue/sst2/dev.tsv", "sst2/dev.tsv", "SST-2/dev.tsv"),
    models=paper.CLASSIFIERS,
    needs="classifier",
    cost="every measure once for each of a few texts",
    also=("fig8", "fig9", "fig10", "table1", *(f"table{number}" for number in range(3, 10))),
    texts=4,
)

BY_LAYER = ("attention", "attention_norm", "alti")


def run(setting: Setting) -> Outcome:
    """Plot the scores of every measure for a few texts."""
    observations = setting.observe({"texts": _describe_case})
    plots, rows = {}, []
    for number, answer in enumerate(observations.answers["texts"], 1):
        plots[f"layers{number}"] = _layers(answer)
        plots[f"saliency{number}"] = _saliency(answer)
        rows += [
            {
                "text": number,
                "measure": name,
                "token": token,
                "position": place,
                "share": float(value),
            }
            for name, values in answer["rows"].items()
            for place, (token, value) in enumerate(zip(answer["tokens"], values, strict=True))
        ]
    return Outcome({"saliency": pd.DataFrame(rows)}, plots, {}, [], observations.skipped)


def _describe_case(case: Case) -> dict[str, Any]:
    rows = {}
    for name in ready_measures():
        try:
            rows[name] = case.target_row(name)
        except MixlensError:  # a measure that does not support this model
            continue
    rolled = {name: roll_out_absolute(case.maps(name)).row(case.target).scores for name in BY_LAYER}
    return {"tokens": list(case.row.labels), "rows": rows, "rolled": rolled}


def _layers(answer: dict[str, Any]) -> Any:
    figure, places = figures.panels(
        len(BY_LAYER), columns=len(BY_LAYER), width=4, height=0.26 * len(answer["tokens"]) + 1.4
    )
    for place, (name, values) in zip(places, answer["rolled"].items(), strict=True):
        columns = [str(layer) for layer in range(len(values))]
        figures.heat_map(
            values.T,
            answer["tokens"],
            columns,
            title=f"{name}, rolled out",
            x_label="layer",
            y_label="",
            axes=place,
        )
    return figure


def _saliency(answer: dict[str, Any]) -> Any:
    """Plot a heat map with one row per measure and one column per token. Each row has its own
    scale.
    """
    sizes = np.abs(np.stack(list(answer["rows"].values())))
    figure, (place,) = figures.panels(
        1, width=0.42 * len(answer["tokens"]) + 3.5, height=0.28 * len(sizes) + 1.6
    )
    shaded = sizes / np.maximum(sizes.max(1, keepdims=True), 1e-30)
    figures.heat_map(
        shaded,
        list(answer["rows"]),
        answer["tokens"],
        x_label="",
        y_label="",
        scale=(0, 1),
        axes=place,
    )
    return figure
