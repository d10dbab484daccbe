"""Modarressi et al. (2023), table 1: the effect on a classifier of masking the tokens that a
measure ranks first.

DecompX follows the authors' code (`variant="released"`), which produced the published numbers. Two
parts of the table are omitted: the row GlobEnc + FFN, because mixlens does not implement its
treatment of the MLP, and the column PRED, which trains a model on the tokens that each measure
selects.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pandas as pd

from mixlens.evaluating.contracts import EvaluationSpec, Result
from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting, verdict
from mixlens.papers.modarressi2023 import paper
from mixlens.views import figures

METHODS: dict[str, dict[str, Any]] = {
    "random": {},
    "globenc": {},
    "alti": {},
    "gradient_x_input": {},
    "integrated_gradients": {},
    "decompx_logit": {"variant": "released"},
}
DIRECTIONS = {"aopc": "higher", "accuracy": "lower"}

# AOPC and accuracy (in per cent) by data set.
PUBLISHED = {
    "sst2": {
        "globenc": (0.307, 67.14),
        "alti": (0.416, 57.65),
        "gradient_x_input": (0.310, 66.69),
        "integrated_gradients": (0.340, 64.48),
        "decompx_logit": (0.627, 40.80),
    },
    "mnli": {
        "globenc": (0.498, 48.07),
        "alti": (0.515, 45.89),
        "gradient_x_input": (0.544, 44.21),
        "integrated_gradients": (0.579, 40.80),
        "decompx_logit": (0.703, 32.64),
    },
    "qnli": {
        "globenc": (0.342, 64.93),
        "alti": (0.355, 63.85),
        "gradient_x_input": (0.366, 62.93),
        "integrated_gradients": (0.381, 61.12),
        "decompx_logit": (0.453, 57.50),
    },
    "hatexplain": {
        "globenc": (0.401, 47.65),
        "alti": (0.469, 43.30),
        "gradient_x_input": (0.433, 46.28),
        "integrated_gradients": (0.445, 45.19),
        "decompx_logit": (0.612, 38.71),
    },
}

SPEC = ExperimentSpec(
    title=(
        "drop in accuracy and in the probability of the predicted class when the top tokens "
        "of a measure are masked"
    ),
    finding=(
        "DecompX finds the tokens that the classifier needs better than all other measures, "
        "on four data sets"
    ),
    kinds=("classification",),
    data="the validation sets of SST-2, MNLI (matched), QNLI and HateXplain",
    files=("glue/sst2/dev.tsv", "sst2/dev.tsv", "SST-2/dev.tsv", "glue/mnli/*.tsv"),
    own_files=("*/sst2/dev.tsv", "*/SST-2/dev.tsv", "*/mnli/dev_matched.tsv", "*/qnli/dev.tsv"),
    models=tuple(f"bert-base-uncased-{data}" for data in PUBLISHED),
    needs="classifier",
    cost="each measure and ten forward passes for each text",
    published={
        f"bert-base-uncased-{data}": {
            f"{name}, {column}": number
            for name, (fall, right) in numbers.items()
            for column, number in (("AOPC", fall), ("accuracy", right / 100))
        }
        for data, numbers in PUBLISHED.items()
    },
)


def run(setting: Setting) -> Outcome:
    """Mask tokens in the order of each measure's scores, and classify the masked texts."""
    observations = setting.observe(
        {
            name: partial(paper.observe, measure=name, options=measure_options, seed=setting.seed)
            for name, measure_options in METHODS.items()
        }
    )
    results = {
        name: {key: _result(key, [each[key] for each in answers]) for key in DIRECTIONS}
        for name, answers in observations.answers.items()
    }
    falls = {name: both["aopc"].value for name, both in results.items()}
    rights = {name: both["accuracy"].value for name, both in results.items()}
    measured = {f"{name}, AOPC": value for name, value in falls.items()}
    measured |= {f"{name}, accuracy": value for name, value in rights.items()}
    figure = figures.bars(
        {"": falls},
        intervals={"": {name: both["aopc"].interval for name, both in results.items()}},
        title="fall of the predicted class's probability",
        y_label="AOPC",
    )
    table = pd.DataFrame([_row(name, both) for name, both in results.items()])
    return Outcome(
        {"table1": table},
        {"table1": figure},
        measured,
        [_first("AOPC", falls, max), _first("accuracy", rights, min)],
        observations.skipped,
    )


def _result(key: str, values: list[float]) -> Result:
    spec = EvaluationSpec(summary=key, citation="", direction=DIRECTIONS[key], kinds=())
    return Result.of(spec, values)


def _row(name: str, both: dict[str, Result]) -> dict[str, Any]:
    row: dict[str, Any] = {"measure": name}
    for key, result in both.items():
        row |= {key: result.value, f"{key} low": result.interval[0]}
        row |= {f"{key} high": result.interval[1]}
    return row


def _first(column: str, values: dict[str, float], best: Any) -> Finding:
    words = "the largest" if best is max else "the smallest"
    holds = "decompx_logit" in values and best(values, key=values.__getitem__) == "decompx_logit"
    numbers = ", ".join(f"{name} {value:.3f}" for name, value in values.items())
    return Finding(
        f"masking by DecompX gives {words} {column}", verdict(holds, *values.values()), numbers
    )
