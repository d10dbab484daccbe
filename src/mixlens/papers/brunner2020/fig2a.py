"""Brunner et al. (2020), figure 2a: in which layers can the input token still be identified from
the hidden state?
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from mixlens.papers.brunner2020 import paper
from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting, verdict
from mixlens.views import figures

SPEC = ExperimentSpec(
    title=(
        "token identifiability by layer: nearest neighbour of the state itself, of a linear and of"
        " an MLP probe"
    ),
    finding=(
        "in the first four layers, the state itself identifies most tokens; in the last "
        "layer, a linear probe with cosine distance identifies 93 % of them"
    ),
    kinds=("text",),
    data=paper.DATA,
    files=paper.FILES,
    own_files=paper.FILES,
    cost=(
        "one forward pass for each text, then a probe for each layer, metric and fold; trained"
        " probes take minutes each"
    ),
    published={"bert-base-uncased": {"linear, cosine, last layer": 0.93}},
)


def run(
    setting: Setting,
    *,
    probes: Sequence[str] = ("naive", "linear", "mlp"),
    metrics: Sequence[str] = ("cosine", "l2"),
    folds: int = 10,
) -> Outcome:
    """Test each probe with each metric. `folds` is the number of cross-validation folds."""
    observations, layers = paper.rates(setting, probes, metrics, folds=folds)
    table = pd.DataFrame({"layer": np.arange(len(next(iter(layers.values())))), **layers})
    figure = figures.lines(
        layers, x=table.layer, title="token identifiability", y_label="share of tokens identified"
    )
    measured = {
        "linear, cosine, last layer": (
            float(layers["linear, cosine"][-1]) if "linear, cosine" in layers else float("nan")
        )
    }
    return Outcome(
        {"by_layer": table}, {"fig2a": figure}, measured, findings(layers), observations.skipped
    )


def findings(layers: dict[str, np.ndarray]) -> list[Finding]:
    """Check the paper's findings against the rates of each probe in all layers."""
    none = np.full(len(next(iter(layers.values()))), np.nan)
    naive = next((values for name, values in layers.items() if name.startswith("naive")), none)
    early = float(naive[len(naive) // 3])
    trained = [values for name, values in layers.items() if not name.startswith("naive")]
    best = max(float(values[-1]) for values in trained) if trained else float("nan")
    return [
        Finding(
            "the state itself is nearest to its own token in the first third of the layers",
            verdict(early > 0.9, early),
            f"{early:.2f}",
        ),
        Finding(
            "a probe identifies most tokens in the last layer",
            best > 0.8 if trained else None,
            f"{best:.2f}; without a probe {naive[-1]:.2f}",
        ),
    ]
