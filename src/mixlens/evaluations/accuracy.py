"""Accuracy: how often the model is right on the data.

A classifier is right if its most probable class is the label. On an agreement example, the target
must be more probable than the foil. This evaluates the model, not a measure: if the accuracy is at
chance level, evaluations on this model say nothing about a measure. `benchmark` therefore computes
it for every data set with answers.

Chance level is one half for agreement examples, and the frequency of the most frequent label for
classification.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mixlens.datasets.examples import Agreement, Labelled
from mixlens.errors import InvalidInput
from mixlens.evaluating.contracts import EvaluationSpec, Result
from mixlens.replay.explained_output import select_explained

if TYPE_CHECKING:
    from mixlens.evaluating.case import Case

SPEC = EvaluationSpec(
    summary="how often the model gives the right answer",
    citation="none: the share of right answers",
    direction="higher",
    kinds=("agreement", "classification"),
    of="model",
    judges_data=True,
    cost="1 forward pass",
)


def prefers_target(case: Case) -> bool:
    """Return whether the model finds the target of an agreement example more probable than its
    foil.
    """
    output = select_explained(case.recording, **case.explain, of="logit")
    return bool(output(case.recording.output, output.chosen.new_zeros(1))[0] > 0)


def observe(case: Case) -> dict[str, Any]:
    """Return `value` (1 if the model is right, 0 if not) and `label` (the correct class, or None
    for agreement examples).
    """
    example = case.example
    if isinstance(example, Agreement):
        return {"value": float(prefers_target(case)), "label": None}
    if not isinstance(example, Labelled):
        raise InvalidInput(
            f"{example.kind} examples have no right answer. Use agreement or classification data."
        )
    label_id = select_explained(case.recording, label=example.label, of="logit").chosen[0]
    right = bool(select_explained(case.recording, of="logit").chosen[0] == label_id)
    return {"value": float(right), "label": example.label}


def conclude(observations: Sequence[dict[str, Any]]) -> Result:
    """Return the fraction of examples that the model answers correctly.

    `chance` is the accuracy of a model that ignores the texts.
    """
    labels = Counter(
        observation["label"] for observation in observations if observation["label"] is not None
    )
    chance = max(labels.values()) / labels.total() if labels else 0.5
    values = [observation["value"] for observation in observations]
    return replace(Result.of(SPEC, values), chance=chance)


def evaluate(cases: Iterable[Case]) -> Result:
    """Return the fraction of cases that the model answers correctly."""
    return conclude([observe(case) for case in cases])
