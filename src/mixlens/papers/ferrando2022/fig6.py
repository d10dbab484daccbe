"""Ferrando et al. (2022), figure 6: the ranks of special tokens and punctuation."""

from __future__ import annotations

from functools import partial

import pandas as pd

from mixlens.evaluations import special_token_rank
from mixlens.measures import ready_measures
from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting, verdict
from mixlens.papers.ferrando2022 import paper
from mixlens.views import figures

SPEC = ExperimentSpec(
    title="mean rank of [CLS], [SEP], comma and full stop by relevance, for each measure",
    finding=(
        "ALTI ranks special tokens and punctuation low, while the rollouts of attention and "
        "of norms rank them high"
    ),
    kinds=("classification",),
    data="500 sentences of the SST-2 test set",
    files=paper.FILES,
    models=paper.CLASSIFIERS,
    needs="classifier",
    cost="every measure once for each text",
    texts=500,
)


def run(setting: Setting) -> Outcome:
    """Return the mean normalised ranks of special tokens and punctuation for each measure.

    Rank 0 is the least relevant.
    """
    observations = setting.observe(
        {name: partial(special_token_rank.observe, measure=name) for name in ready_measures()}
    )
    results = {
        name: special_token_rank.conclude(answers) for name, answers in observations.answers.items()
    }
    places = {name: result.details["tokens"] for name, result in results.items()}
    table = pd.DataFrame(
        [
            {"measure": name, "mean": results[name].value, **tokens}
            for name, tokens in places.items()
        ]
    )
    values = {name: results[name].value for name in ("attention", "attention_norm_res_ln", "alti")}
    numbers = ", ".join(f"{name} {value:.2f}" for name, value in values.items())
    finding = Finding(
        "ALTI ranks special tokens and punctuation lower than the rollouts do",
        verdict(min(values, key=values.__getitem__) == "alti", *values.values()),
        numbers,
    )
    figure = figures.bars(
        places, title="place in the order of relevance (1: most relevant)", y_label="mean place"
    )
    return Outcome({"places": table}, {"fig6": figure}, {}, [finding], observations.skipped)
