"""Ferrando et al.

(2022), table 2, sentiment: agreement of the rolled-out measures with the norm of the gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from mixlens.evaluations import gradient_agreement
from mixlens.evaluations.contracts import Result
from mixlens.experiments.contracts import Finding, Outcome, Setting, Spec, told
from mixlens.experiments.ranked import ranked, ranked_bars
from mixlens.measures import list_measures

SPEC = Spec(
    title="Spearman's correlation of each measure with gradient norms, on classified sentences",
    finding="ALTI agrees best; rollout of attention hardly agrees at all",
    kinds=("classification",),
    data="500 sentences of the SST-2 test set",
    files=("glue/sst2/test.tsv", "sst2/test.tsv", "SST-2/test.tsv"),
    own_files=("glue/sst2/test.tsv", "sst2/test.tsv", "SST-2/test.tsv"),
    models=(
        "bert-base-uncased-sst-2",
        "distilbert-base-uncased-finetuned-sst-2-english",
        "roberta-base-sst-2",
    ),
    needs="classifier",
    cost="every measure and one backward pass for each text",
    texts=500,
    published={
        "bert-base-uncased-sst-2": {
            "attention": -0.03,
            "attention_norm_res_ln": 0.41,
            "alti": 0.55,
        },
        "distilbert-base-uncased-finetuned-sst-2-english": {
            "attention": 0.23,
            "attention_norm_res_ln": 0.29,
            "alti": 0.54,
        },
        "roberta-base-sst-2": {"attention": 0.01, "attention_norm_res_ln": 0.37, "alti": 0.68},
    },
)


def run(setting: Setting) -> Outcome:
    return judged(setting, gradient_agreement.observe, gradient_agreement.conclude, "gradient_norm")


def judged(
    setting: Setting, observe: Callable[..., Any], conclude: Callable[..., Result], reference: str
) -> Outcome:
    """Every measure but the reference itself against the reference."""
    seen = setting.observed(
        {name: partial(observe, measure=name) for name in list_measures() if name != reference}
    )
    results = {name: conclude(kept) for name, kept in seen.answers.items()}
    values = {name: results[name].value for name in ("attention", "attention_norm_res_ln", "alti")}
    shown = ", ".join(f"{name} {value:.2f}" for name, value in values.items())
    best = max(values, key=values.__getitem__)
    finding = Finding(
        f"ALTI agrees better with {reference} than the rollouts of norms and of attention",
        told(best == "alti", *values.values()),
        shown,
    )
    measured = {name: found.value for name, found in results.items()}
    figure = ranked_bars(results, f"agreement with {reference}")
    return Outcome(
        {"table2": ranked(results)}, {"table2": figure}, measured, [finding], seen.skipped
    )
