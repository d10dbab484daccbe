"""Ferrando et al. (2022), figure 7: do two models that make the same prediction make it for the
same reasons?
"""

from __future__ import annotations

from functools import partial

from mixlens.errors import InvalidInput
from mixlens.evaluations import cross_model_consistency
from mixlens.measures import ready_measures
from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting
from mixlens.papers.ferrando2022 import paper
from mixlens.papers.ranked import draw_ranked_bars, rank_measures

SPEC = ExperimentSpec(
    title=(
        "rank correlation of each measure's scores between two models, on texts that both "
        "classify in the same way"
    ),
    finding="ALTI is the most consistent measure between models",
    kinds=("classification",),
    data="500 sentences of the SST-2 test set",
    files=paper.FILES,
    models=paper.CLASSIFIERS,
    needs="classifier",
    cost="every measure once for each text and model",
    compares=True,
    texts=500,
)


def run(setting: Setting) -> Outcome:
    """Compare each measure's scores between the two models, text by text."""
    assert setting.other is not None
    observe = partial(cross_model_consistency.observe, other=setting.other)
    observations = setting.observe(
        {name: partial(observe, measure=name) for name in ready_measures() if name != "random"}
    )
    results = {
        name: cross_model_consistency.conclude(answers)
        for name, answers in observations.answers.items()
    }
    if results["alti"].value != results["alti"].value:
        raise InvalidInput(
            "The two models never predict the same class on these texts, so they cannot be "
            "compared. Use other texts or models."
        )
    table = rank_measures(results)
    best = str(table.measure.iloc[0])
    finding = Finding(
        "ALTI is the most consistent between models",
        best == "alti",
        f"best: {best} {table.spearman.iloc[0]:.2f}",
    )
    figure = draw_ranked_bars(results, "consistency between two models")
    return Outcome({"consistency": table}, {"fig7": figure}, {}, [finding], observations.skipped)
