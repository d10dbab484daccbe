"""Mohebbi et al. (2023), Quantifying context mixing in transformers: code that its figures
share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from mixlens.evaluating.contracts import Result
from mixlens.evaluations import cue_alignment
from mixlens.measures import ready_measures
from mixlens.papers.contracts import Setting
from mixlens.views import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DATA = "five BLiMP paradigms with marked cues"
FILES = ("blimp_cues", "blimp")
MODELS = ("bert-base-uncased", "roberta-base", "electra-base-generator")


@dataclass(frozen=True)
class CueAlignment:
    """Cue alignment of every measure, with tables and figures."""

    results: dict[tuple[str, str], Result]
    tables: dict[str, pd.DataFrame]
    figures: dict[str, Figure]
    skipped: list[tuple[str, str]]


def align_cues(setting: Setting, metrics: Sequence[str]) -> CueAlignment:
    """Evaluate the cue alignment of every measure with every metric, on all texts."""
    names = [name for name, spec in ready_measures().items() if spec.gives == "maps"]
    questions = {
        (m, name): partial(cue_alignment.observe, measure=name, metric=m)
        for m in metrics
        for name in names
    }
    observations = setting.observe(questions)
    results = {
        key: cue_alignment.conclude(answers, metric=key[0])
        for key, answers in observations.answers.items()
    }
    rows = [
        {"metric": metric, "measure": name, "layer": layer, "alignment": value}
        for (metric, name), result in results.items()
        for layer, value in enumerate(result.details["layers"])
    ]
    plots = {
        metric: figures.lines(
            {
                name: cue_result.details["layers"]
                for (m, name), cue_result in results.items()
                if m == metric
            },
            title=f"cue alignment, {metric}",
            y_label=metric,
        )
        for metric in metrics
    }
    tables = {"by_layer": pd.DataFrame(rows), "rollout": _join_results(results)}
    return CueAlignment(results, tables, plots, observations.skipped)


def _join_results(results: dict[tuple[str, str], Result]) -> pd.DataFrame:
    rows = [
        {
            "metric": metric,
            "measure": name,
            "rollout": result.value,
            "low": result.interval[0],
            "high": result.interval[1],
        }
        for (metric, name), result in results.items()
    ]
    return pd.DataFrame(rows)
