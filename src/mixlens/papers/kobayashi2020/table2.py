"""Kobayashi et al. (2020), table 2: do small vectors get large attention weights?"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from mixlens.evaluations import norm_statistics
from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting, verdict
from mixlens.papers.kobayashi2020 import paper
from mixlens.views import figures

SPEC = ExperimentSpec(
    title="Spearman's correlation of weight and |f(x)| by category of the source",
    finding=(
        "on special tokens, weight and norm are negatively correlated (-0.69 on [SEP]); on "
        "other tokens, they are hardly correlated (-0.06)"
    ),
    kinds=("text",),
    longest=paper.LONGEST,
    data=paper.DATA,
    files=paper.FILES,
    texts=paper.TEXTS,
    published={
        "bert-base-uncased": {"cls": -0.34, "sep": -0.69, "punctuation": -0.25, "other": -0.06}
    },
)


def run(setting: Setting) -> Outcome:
    """Return the correlation of weights and norms for each category of tokens."""
    observations = setting.observe({"norms": norm_statistics.observe})
    correlations = {
        key: float(value)
        for key, value in (
            norm_statistics.conclude(observations.answers["norms"]).details["correlation"].items()
        )
    }
    table = pd.DataFrame({"category": list(correlations), "spearman": list(correlations.values())})
    figure = figures.bars(
        {"": correlations}, title="weight against |f(x)|", y_label="Spearman's rho"
    )
    return Outcome(
        {"correlation": table},
        {"table2": figure},
        correlations,
        findings(correlations),
        observations.skipped,
    )


def findings(correlations: Mapping[str, float]) -> list[Finding]:
    """Check the paper's findings against the correlation of each category."""
    return [
        Finding(
            f"weight and norm go against each other on [{name.upper()}], more than on other tokens",
            verdict(correlations[name] < min(-0.1, correlations["other"]), correlations[name]),
            f"{correlations[name]:.2f}; others {correlations['other']:.2f}",
        )
        for name in ("cls", "sep")
    ]
