"""Mohebbi et al. (2023), figure 3 and table 2: in which layers can a probe read the grammatical
number from the masked position, and which measures agree with it?
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd

from mixlens.evaluations import cue_alignment, probing
from mixlens.measures import ready_measures
from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting
from mixlens.papers.mohebbi2023 import paper
from mixlens.views import figures

SPEC = ExperimentSpec(
    title=(
        "compression of a probe for the number by layer, and its rank correlation with the cue"
        " alignment of each measure"
    ),
    finding=(
        "Value Zeroing and norms increase with the compression (0.65 and 0.52), gradients "
        "decrease (-0.86 to -0.97), and the other measures hardly correlate with it"
    ),
    kinds=("agreement",),
    data=paper.DATA,
    files=paper.FILES,
    own_files=paper.FILES,
    models=paper.MODELS,
    needs="language",
    cost="every measure once for each text, then a few hundred small probes",
    also=("table2",),
    published={
        "bert-base-uncased": {
            "random": -0.07,
            "attention": 0.10,
            "attention_norm": 0.52,
            "attention_norm_res": -0.35,
            "attention_norm_res_ln": 0.12,
            "globenc": -0.01,
            "alti": -0.01,
            "gradient_x_input": -0.96,
            "integrated_gradients": -0.86,
            "deep_lift": -0.97,
            "value_zeroing": 0.65,
        }
    },
)

# Gradients are taken at the input of every layer here, as in the paper. Elsewhere one set of scores
# describes the whole model.
BY_LAYER = ("gradient_x_input", "integrated_gradients", "deep_lift")


def run(setting: Setting, *, variant: str = "paper") -> Outcome:
    """Probe every layer, and compare the results with cue alignments.

    `variant` selects the implementation of the probe.
    """
    names = [
        name for name, spec in ready_measures().items() if spec.gives == "maps" or name in BY_LAYER
    ]
    layers = len(setting.lens.record(setting.examples[0].text).layers())
    options_by_measure = {
        name: {"layers": list(range(layers))} if name in BY_LAYER else {} for name in names
    }
    observe = partial(cue_alignment.observe, aggregate="last")
    questions = {
        name: partial(observe, measure=name, options=options)
        for name, options in options_by_measure.items()
    }
    observations = setting.observe({**questions, "states": probing.observe})
    compression = probing.conclude(
        observations.answers.pop("states"), variant=variant, seed=setting.seed
    )
    alignment = {
        name: np.asarray(cue_alignment.conclude(answers).details["layers"])
        for name, answers in observations.answers.items()
    }
    by_layer = np.asarray(compression.details["layers"])
    agreement = {
        name: probing.agreement_with(by_layer, values) for name, values in alignment.items()
    }
    table = pd.DataFrame(
        {
            "layer": np.arange(len(by_layer)),
            "compression": by_layer,
            "bits": compression.details["bits"],
        }
    )
    ranked = pd.DataFrame({"measure": list(agreement), "spearman": list(agreement.values())})
    figure = figures.lines(
        {"compression": by_layer},
        x=table.layer,
        title="online code of the number",
        x_label="state (0: the input)",
        y_label="compression",
    )
    best = max(
        (name for name in agreement if agreement[name] == agreement[name]),
        key=agreement.__getitem__,
    )
    findings = [
        Finding(
            "the number is better compressed in higher layers",
            bool(by_layer[-1] > by_layer[0]),
            f"{by_layer[0]:.2f} to {by_layer[-1]:.2f}",
        ),
        Finding(
            "Value Zeroing agrees best with compression",
            best == "value_zeroing",
            f"best: {best} {agreement[best]:.2f}",
        ),
    ]
    return Outcome(
        {"compression": table, "spearman": ranked},
        {"fig3": figure},
        agreement,
        findings,
        observations.skipped,
    )
