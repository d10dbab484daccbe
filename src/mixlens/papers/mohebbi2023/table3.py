"""Mohebbi et al. (2023), table 3: do the rollouts of measures rank tokens in the same order as
blank-out does?
"""

from __future__ import annotations

from functools import partial

from mixlens.evaluations import erasure
from mixlens.measures import ready_measures
from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting, verdict
from mixlens.papers.mohebbi2023 import paper
from mixlens.papers.ranked import draw_ranked_bars, rank_measures

SPEC = ExperimentSpec(
    title="Spearman's correlation of each measure, rolled out, with blanking out every token",
    finding=(
        "Value Zeroing agrees best with blank-out (0.26), followed by DeepLift (0.20) and "
        "norms (0.19), and the correlation of attention is negative"
    ),
    kinds=("agreement",),
    data=paper.DATA,
    files=paper.FILES,
    own_files=paper.FILES,
    models=paper.MODELS,
    needs="language",
    cost="every measure and n forward passes for each text",
    published={
        "bert-base-uncased": {
            "random": -0.01,
            "attention": -0.10,
            "attention_norm": 0.19,
            "attention_norm_res": 0.03,
            "attention_norm_res_ln": -0.08,
            "globenc": -0.01,
            "alti": 0.17,
            "gradient_x_input": 0.11,
            "integrated_gradients": 0.07,
            "deep_lift": 0.20,
            "value_zeroing": 0.26,
        }
    },
)


def run(setting: Setting, *, variant: str = "mohebbi2023") -> Outcome:
    """Compare each measure with erasure, text by text. `variant` selects the erasure protocol."""
    names = [name for name in ready_measures() if name != "blank_out"]
    has_unknown_token = isinstance(getattr(setting.lens.tokenizer, "unk_token_id", None), int)
    observe = partial(
        erasure.observe, variant=variant, replacement=None if has_unknown_token else "zero"
    )  # some tokenizers have no [UNK]
    observations = setting.observe({name: partial(observe, measure=name) for name in names})
    results = {name: erasure.conclude(answers) for name, answers in observations.answers.items()}
    table = rank_measures(results)
    values = {name: result.value for name, result in results.items()}
    layered = {
        name: value
        for name, value in values.items()
        if ready_measures()[name].gives == "maps" and value == value
    }
    best = max(layered, key=layered.__getitem__)
    findings = [
        Finding(
            "of measures of mixing, Value Zeroing agrees best",
            best == "value_zeroing",
            f"best: {best} {layered[best]:.2f}",
        ),
        Finding(
            "attention does not agree with blank-out",
            verdict(values["attention"] < 0.05, values["attention"]),
            f"{values['attention']:.2f}",
        ),
    ]
    figure = draw_ranked_bars(results, "agreement with blank-out")
    return Outcome({"spearman": table}, {"table3": figure}, values, findings, observations.skipped)
