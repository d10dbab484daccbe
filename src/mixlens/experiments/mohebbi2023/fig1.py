"""Mohebbi et al.

(2023), figures 1 and 2, A.3 and A.4: how much of a masked word's row lies on the words that decide
it, layer by layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd

from mixlens.evaluations import cue_alignment
from mixlens.evaluations.contracts import Result
from mixlens.experiments.contracts import Finding, Outcome, Setting, Spec
from mixlens.measures import list_measures
from mixlens.render import figures

SPEC = Spec(
    title="cue alignment (dot product, average precision) by layer and measure",
    finding="Value Zeroing is highest in all layers; raw attention lies below random",
    kinds=("agreement",),
    data="five BLiMP paradigms with marked cues",
    files=("blimp_cues", "blimp"),
    own_files=("blimp_cues", "blimp"),
    models=("bert-base-uncased", "roberta-base", "electra-base-generator"),
    needs="language",
    cost="every measure once for each text",
    also=("fig2", "figA3", "figA4"),
)


def run(setting: Setting, *, metrics: Sequence[str] = ("dot", "average_precision")) -> Outcome:
    names = [name for name, spec in list_measures().items() if spec.gives == "maps"]
    questions = {
        (m, name): partial(cue_alignment.observe, measure=name, metric=m)
        for m in metrics
        for name in names
    }
    seen = setting.observed(questions)
    results = {
        key: cue_alignment.conclude(kept, metric=key[0]) for key, kept in seen.answers.items()
    }
    rows = [
        {"metric": metric, "measure": name, "layer": layer + 1, "alignment": value}
        for (metric, name), result in results.items()
        for layer, value in enumerate(result.details["layers"])
    ]
    drawn = {
        metric: figures.lines(
            {name: found.details["layers"] for (m, name), found in results.items() if m == metric},
            title=f"cue alignment, {metric}",
            y_label=metric,
        )
        for metric in metrics
    }
    return Outcome(
        {"by_layer": pd.DataFrame(rows), "rollout": _joined(results)},
        drawn,
        {},
        _findings(results) if "dot" in metrics else [],
        seen.skipped,
    )


def _joined(results: dict[tuple[str, str], Result]) -> pd.DataFrame:
    rows = [
        {
            "metric": metric,
            "measure": name,
            "rollout": found.value,
            "low": found.interval[0],
            "high": found.interval[1],
        }
        for (metric, name), found in results.items()
    ]
    return pd.DataFrame(rows)


def _findings(results: dict[tuple[str, str], Result]) -> list[Finding]:
    layers = {
        name: np.asarray(found.details["layers"])
        for (metric, name), found in results.items()
        if metric == "dot"
    }
    others = np.stack(
        [values for name, values in layers.items() if name not in ("value_zeroing", "random")]
    )
    best = int((layers["value_zeroing"] > others.max(0)).sum())
    below = int((layers["attention"] < layers["random"]).sum())
    count = others.shape[1]
    return [
        Finding("Value Zeroing is highest in all layers", best == count, f"in {best} of {count}"),
        Finding(
            "raw attention lies below random", below > count / 2, f"in {below} of {count} layers"
        ),
    ]
