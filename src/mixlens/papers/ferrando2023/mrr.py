"""Ferrando et al. (2023): the mean reciprocal rank of the words that determine the next word, on
BLiMP and on indirect object identification.

The authors' number for BLiMP is the mean over nine of their eleven subsets. Ranks follow the
authors' rule for ties. Two of their baselines are not compared with the published numbers: their
erasure masks a token in attention, which mixlens does not implement, and their gradient x input
uses only the word embedding.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from mixlens.evaluating.contracts import Result
from mixlens.evaluations import evidence_rank
from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting, verdict
from mixlens.views import figures

BLIMP = (
    *("anaphor_gender_agreement", "anaphor_number_agreement", "animate_subject_passive"),
    *("determiner_noun_agreement_1", "determiner_noun_agreement_irregular_1"),
    *("determiner_noun_agreement_with_adj_irregular_1",),
    *("determiner_noun_agreement_with_adjective_1", "distractor_agreement_relational_noun"),
    "npi_present_1",
)
IOI = ("ioi_dataset",)
DATA: dict[str, tuple[str, ...]] = {"BLiMP": BLIMP, "IOI": IOI}
METHODS: dict[str, dict[str, Any]] = {
    "gradient_norm": {"of": "logit", "reduction": "l1"},
    "gradient_x_input": {"of": "logit"},
    "logit_update": {"initial": True},
    "alti_logit": {"initial": True},
}

SPEC = ExperimentSpec(
    title="mean reciprocal rank of the evidence by measure, on nine sets of BLiMP and on IOI",
    finding=(
        "logit updates and ALTI-Logit find the evidence far better than gradients and "
        "erasure, and ALTI-Logit is best in GPT-2 small"
    ),
    kinds=("agreement",),
    data=(
        "nine sets of BLiMP and 1,000 sentences with indirect objects, with marked evidence (the"
        " authors' tables)"
    ),
    files=("logit_explanations",),
    own_files=("*/logit_explanations",),
    models=("gpt2",),
    needs="causal",
    cost="each measure once for each text",
    published={
        "gpt2": {
            "random, BLiMP": 0.5123,
            "gradient_norm, BLiMP": 0.5464,
            "logit_update, BLiMP": 0.7307,
            "alti_logit, BLiMP": 0.7391,
            "random, IOI": 0.245,
            "gradient_norm, IOI": 0.860,
            "logit_update, IOI": 1.000,
            "alti_logit, IOI": 1.000,
        }
    },
)


def run(setting: Setting) -> Outcome:
    """Evaluate each measure on every data set, with the authors' rule for ties."""
    observe = evidence_rank.observe
    observations = setting.observe(
        {
            name: partial(observe, measure=name, options=measure_options)
            for name, measure_options in METHODS.items()
        }
    )
    results = {
        name: evidence_rank.conclude(answers) for name, answers in observations.answers.items()
    }
    one = next(iter(results.values()))
    by_set = {name: result.details["groups_authors_ties"] for name, result in results.items()}
    by_set = {"random": one.details["groups_chance"], **by_set}
    sets = sorted(one.details["groups"])
    table = pd.DataFrame(
        {
            "set": sets,
            **{name: [by_data[each] for each in sets] for name, by_data in by_set.items()},
        }
    )
    fair = pd.DataFrame([_row(name, result) for name, result in results.items()])
    measured = {
        f"{name}, {data}": _mean(by_data, data_sets)
        for data, data_sets in DATA.items()
        for name, by_data in by_set.items()
    }
    values = {name: measured[f"{name}, BLiMP"] for name in by_set}
    means = {
        name: float(np.mean([by_data[each] for each in sets])) for name, by_data in by_set.items()
    }
    figure = figures.bars({"": means}, title="mean over sets", y_label="mean reciprocal rank")
    return Outcome(
        {"sets": table, "texts": fair},
        {"mrr": figure},
        measured,
        _findings(measured, values),
        observations.skipped,
    )


def _row(name: str, result: Result) -> dict[str, Any]:
    low, high = result.interval
    return {
        "measure": name,
        "mean over texts": result.value,
        "low": low,
        "high": high,
        "chance": result.chance,
    }


def _mean(by_set: dict[str, float], data_sets: tuple[str, ...]) -> float:
    """Return the mean over data sets, or NaN if one of them is missing."""
    if not set(data_sets) <= by_set.keys():
        return float("nan")
    return float(np.mean([by_set[name] for name in data_sets]))


def _findings(measured: dict[str, float], results: dict[str, float]) -> list[Finding]:
    numbers = ", ".join(f"{name} {value:.3f}" for name, value in results.items())
    values = list(results.values())
    missing = float("nan")
    updates = results.get("logit_update", missing)
    alti_logit = results.get("alti_logit", missing)
    slopes = max(results.get("gradient_norm", missing), results.get("gradient_x_input", missing))
    objects = [measured.get(f"{name}, IOI", missing) for name in ("logit_update", "alti_logit")]
    return [
        Finding(
            "on BLiMP, logit updates and ALTI-Logit rank the evidence higher than gradients do",
            verdict(min(updates, alti_logit) > slopes, *values),
            numbers,
        ),
        Finding(
            "on BLiMP, ALTI-Logit is ahead of logit updates (GPT-2 small; larger models differ)",
            verdict(alti_logit > updates, updates, alti_logit),
            numbers,
        ),
        Finding(
            "both put the indirect object first, always",
            verdict(min(objects) > 0.99, *objects),
            ", ".join(f"{value:.3f}" for value in objects),
        ),
    ]
