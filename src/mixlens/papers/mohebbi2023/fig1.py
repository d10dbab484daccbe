"""Mohebbi et al. (2023), figures 1 and 2, A.3 and A.4: what fraction of a masked word's scores
falls on its cue words, layer by layer?
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mixlens.evaluating.contracts import Result
from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting
from mixlens.papers.mohebbi2023 import paper

SPEC = ExperimentSpec(
    title="cue alignment (dot product, average precision) by layer and measure",
    finding=(
        "Value Zeroing has the highest cue alignment in all layers, and raw attention is "
        "below random"
    ),
    kinds=("agreement",),
    data=paper.DATA,
    files=paper.FILES,
    own_files=paper.FILES,
    models=paper.MODELS,
    needs="language",
    cost="every measure once for each text",
    also=("fig2", "figA3", "figA4"),
)


def run(setting: Setting, *, metrics: Sequence[str] = ("dot", "average_precision")) -> Outcome:
    """Evaluate each measure in each layer, with every metric of `metrics`."""
    aligned = paper.align_cues(setting, metrics)
    return Outcome(
        aligned.tables,
        aligned.figures,
        {},
        _findings(aligned.results) if "dot" in metrics else [],
        aligned.skipped,
    )


def _findings(results: dict[tuple[str, str], Result]) -> list[Finding]:
    layers = {
        name: np.asarray(result.details["layers"])
        for (metric, name), result in results.items()
        if metric == "dot"
    }
    other_measures = np.stack(
        [values for name, values in layers.items() if name not in ("value_zeroing", "random")]
    )
    best = int((layers["value_zeroing"] > other_measures.max(0)).sum())
    below = int((layers["attention"] < layers["random"]).sum())
    count = other_measures.shape[1]
    return [
        Finding("Value Zeroing is highest in all layers", best == count, f"in {best} of {count}"),
        Finding(
            "raw attention lies below random", below > count / 2, f"in {below} of {count} layers"
        ),
    ]
