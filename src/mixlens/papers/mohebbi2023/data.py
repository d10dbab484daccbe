"""Mohebbi et al. (2023), section 4: the five BLiMP paradigms with their cues, and the accuracy of
the model.
"""

from __future__ import annotations

import pandas as pd

from mixlens.evaluating.case import Case
from mixlens.evaluations.cross_model_consistency import name_prediction
from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting
from mixlens.papers.mohebbi2023 import paper
from mixlens.views import figures

PAPER_EXAMPLES = 4276

SPEC = ExperimentSpec(
    title=(
        "number of examples with marked cues in each paradigm, and how often the model "
        "prefers the target to the foil"
    ),
    finding=(
        "BERT is right in 96 % of the 4,276 examples before prompt fine-tuning and in 99 % after it"
    ),
    kinds=("agreement",),
    data=(
        "anaphor number, determiner-noun (two), distractor relational noun, regular plural"
        " subject-verb of BLiMP"
    ),
    files=("blimp", "blimp_cues"),
    own_files=("blimp", "blimp_cues"),
    models=paper.MODELS,
    needs="language",
    published={"bert-base-uncased": {"accuracy": 0.96, "examples": PAPER_EXAMPLES}},
)


def run(setting: Setting) -> Outcome:
    """Count the examples of each paradigm, and measure how often the model prefers the target to
    the foil.
    """
    observations = setting.observe({"right": _right})
    table = pd.DataFrame(observations.answers["right"])
    groups = (
        table.groupby("paradigm")
        .right.agg(["size", "mean"])
        .reset_index()
        .rename(columns={"size": "examples", "mean": "accuracy"})
    )
    accuracy = float(table.right.mean())
    counts = ", ".join(
        f"{paradigm} {count}" for paradigm, count in table.groupby("paradigm").cue.sum().items()
    )
    marked = int(table.cue.sum())
    enough = (
        marked >= PAPER_EXAMPLES if len(setting.examples) >= PAPER_EXAMPLES else None
    )  # a sample cannot tell
    findings = [
        Finding(
            "the model nearly always prefers the right word",
            accuracy > 0.9,
            f"{accuracy:.3f} of {len(table)}",
        ),
        Finding(
            f"as many examples have a marked cue as the paper kept ({PAPER_EXAMPLES:,})",
            enough,
            counts,
        ),
    ]
    figure = figures.bars(
        {"": dict(zip(groups.paradigm, groups.accuracy, strict=True))},
        title="accuracy by paradigm",
        y_label="accuracy",
    )
    measured = {"accuracy": accuracy, "examples": float(len(table))}
    return Outcome(
        {"paradigms": groups, "texts": table},
        {"data": figure},
        measured,
        findings,
        observations.skipped,
    )


def _right(case: Case) -> dict[str, object]:
    target = getattr(case.example, "target", None)
    return {
        "text": case.example.name,
        "paradigm": case.example.group or "all",
        "right": name_prediction(case) == target,
        "cue": bool(getattr(case.example, "cues", ())),
    }
