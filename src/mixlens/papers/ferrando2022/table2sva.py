"""Ferrando et al. (2022), table 2, subject-verb agreement: how well the rollouts of measures agree
with blank-out.
"""

from __future__ import annotations

from functools import partial

from mixlens.evaluations import erasure
from mixlens.papers.contracts import ExperimentSpec, Outcome, Setting
from mixlens.papers.ferrando2022 import paper

SPEC = ExperimentSpec(
    title=(
        "Spearman's correlation of each measure with blanking out every token, on agreement"
        " sentences"
    ),
    finding="ALTI agrees best, and the rollout of attention hardly agrees at all",
    kinds=("agreement",),
    data="500 subject-verb agreement sentences with their verb masked",
    files=("linzen_agreement", "blimp_cues", "blimp"),
    own_files=("linzen_agreement",),
    models=("bert-base-uncased", "distilbert-base-uncased", "roberta-base"),
    needs="language",
    cost="every measure and n forward passes for each text",
    texts=500,
    published={
        "bert-base-uncased": {"attention": -0.02, "attention_norm_res_ln": 0.19, "alti": 0.40},
        "distilbert-base-uncased": {"attention": 0.23, "attention_norm_res_ln": 0.31, "alti": 0.41},
        "roberta-base": {"attention": -0.09, "attention_norm_res_ln": 0.08, "alti": 0.43},
    },
)


def run(setting: Setting) -> Outcome:
    """Compare each measure with erasure, text by text."""
    has_mask = isinstance(getattr(setting.lens.tokenizer, "mask_token_id", None), int)
    observe = partial(
        erasure.observe, variant="ferrando2022", replacement=None if has_mask else "zero"
    )  # causal models have no mask
    return paper.judge_measures(setting, observe, erasure.conclude, "blank_out")
