"""Ferrando et al. (2022), table 2, sentiment: how well the rollouts of measures agree with the norm
of the gradient.
"""

from __future__ import annotations

from mixlens.evaluations import gradient_agreement
from mixlens.papers.contracts import ExperimentSpec, Outcome, Setting
from mixlens.papers.ferrando2022 import paper

SPEC = ExperimentSpec(
    title="Spearman's correlation of each measure with gradient norms, on classified sentences",
    finding="ALTI agrees best, and the rollout of attention hardly agrees at all",
    kinds=("classification",),
    data="500 sentences of the SST-2 test set",
    files=paper.FILES,
    own_files=paper.FILES,
    models=paper.CLASSIFIERS,
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
    """Compare each measure with the gradient norm, text by text."""
    observe, conclude = gradient_agreement.observe, gradient_agreement.conclude
    return paper.judge_measures(setting, observe, conclude, "gradient_norm")
