"""Ferrando et al. (2022), Measuring the mixing of contextual information in the transformer: code
that its figures and tables share.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from mixlens.evaluating.contracts import Result
from mixlens.measures import ready_measures
from mixlens.papers.contracts import Finding, Outcome, Setting, verdict
from mixlens.papers.ranked import draw_ranked_bars, rank_measures

FILES = ("glue/sst2/test.tsv", "sst2/test.tsv", "SST-2/test.tsv")
CLASSIFIERS = (
    "bert-base-uncased-sst-2",
    "distilbert-base-uncased-finetuned-sst-2-english",
    "roberta-base-sst-2",
)


def judge_measures(
    setting: Setting, observe: Callable[..., Any], conclude: Callable[..., Result], reference: str
) -> Outcome:
    """Compare every measure with the reference measure, text by text."""
    observations = setting.observe(
        {name: partial(observe, measure=name) for name in ready_measures() if name != reference}
    )
    results = {name: conclude(answers) for name, answers in observations.answers.items()}
    values = {name: results[name].value for name in ("attention", "attention_norm_res_ln", "alti")}
    numbers = ", ".join(f"{name} {value:.2f}" for name, value in values.items())
    best = max(values, key=values.__getitem__)
    finding = Finding(
        f"ALTI agrees better with {reference} than the rollouts of norms and of attention",
        verdict(best == "alti", *values.values()),
        numbers,
    )
    measured = {name: result.value for name, result in results.items()}
    figure = draw_ranked_bars(results, f"agreement with {reference}")
    return Outcome(
        {"table2": rank_measures(results)},
        {"table2": figure},
        measured,
        [finding],
        observations.skipped,
    )
