"""Cross-model consistency: do the scores of two models agree when the models make the same
prediction?

Ferrando et al. (2022), section 5 and figure 7: Spearman's rank correlation between the attributions
of two models, over the texts on which both make the same prediction. The value of other texts is
NaN. On an agreement example, the prediction is the target or the foil, whichever the model prefers.
On other examples, it is the most probable class or word.

Special tokens and the target are excluded unless you pass `special=True` or `own=True`. If the two
models tokenise the text differently, the scores of each word's pieces are summed, and words are
compared. Special tokens are then excluded. High agreement does not prove that a measure is right: a
measure that depends only on positions agrees on all models.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.datasets.examples import Agreement
from mixlens.errors import InvalidInput
from mixlens.evaluating.contracts import EvaluationSpec, Result
from mixlens.evaluating.sources import mean_and_spread, select_sources
from mixlens.evaluating.statistics import spearman
from mixlens.evaluations.accuracy import prefers_target
from mixlens.replay.explained_output import select_explained
from mixlens.text.words import words

if TYPE_CHECKING:
    from mixlens.evaluating.case import Case
    from mixlens.lens import Lens

SPEC = EvaluationSpec(
    summary=(
        "rank correlation of a measure's scores for two models, on texts where both predict the "
        "same"
    ),
    citation=(
        'Ferrando et al. (2022), "Measuring the Mixing of Contextual Information in the'
        ' Transformer", section 5, figure 7'
    ),
    direction="higher",
    kinds=("classification", "agreement"),
    same_method=("random",),  # it draws the same scores for a text under every model
    chance=0.0,
    cost="the measure itself, on two models",
)


def name_prediction(case: Case) -> str:
    """Return the name of the predicted class or word, which can be compared between models."""
    if isinstance(case.example, Agreement):
        return case.example.target if prefers_target(case) else case.example.foil
    return select_explained(case.recording, of="logit", **case.explain).names[0]


def _same_answer(one: Case, other: Case) -> bool:
    """Return whether both models predict the same class or word.

    Classes are compared by name. If the names differ (LABEL_1, POSITIVE) but both classifiers have
    the same number of classes, they are compared by index.
    """
    label_names = [getattr(case.lens.model.config, "id2label", None) or {} for case in (one, other)]
    if (
        not isinstance(one.example, Agreement)
        and len(label_names[0]) == len(label_names[1])
        and set(label_names[0].values()) != set(label_names[1].values())
    ):
        numbers = [
            int(select_explained(case.recording, of="logit", **case.explain).chosen[0])
            for case in (one, other)
        ]
        return numbers[0] == numbers[1]
    return name_prediction(one) == name_prediction(other)


def observe(
    case: Case,
    measure: str,
    *,
    other: Lens,
    aggregate: str | int = "rollout",
    special: bool = False,
    own: bool = False,
) -> float:
    """Return the rank correlation for one text, or NaN if the predictions differ."""
    pair = (case, case.under(other))
    if not _same_answer(*pair):
        return math.nan
    score_pair = [np.abs(one.target_row(measure, aggregate)) for one in pair]
    counting = [select_sources(one, special_tokens=special, include_target=own) for one in pair]
    labels = [
        [label for label, counts in zip(one.row.labels, keep, strict=True) if counts]
        for one, keep in zip(pair, counting, strict=True)
    ]
    if labels[0] == labels[1]:
        return spearman(score_pair[0][counting[0]], score_pair[1][counting[1]])
    if special:
        raise InvalidInput(
            "The two models tokenise this text differently, so special tokens cannot be "
            "compared. Pass special=False."
        )
    merged = [_words(*parts) for parts in zip(pair, score_pair, counting, strict=True)]
    if merged[0][0] != merged[1][0]:
        first = next(
            (a, b) for a, b in zip(merged[0][0] + [""], merged[1][0] + [""], strict=False) if a != b
        )
        raise InvalidInput(
            f"The two models have different words in this text, first {first[0]!r} and "
            f"{first[1]!r}. Use models that share a word segmentation."
        )
    return spearman(merged[0][1], merged[1][1])


def _words(case: Case, scores: np.ndarray, counting: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Return the words whose tokens are all included, and the score of each of these words, summed
    over its tokens.
    """
    ranges, merged_tokens = words(case.row)
    whole_words = [
        number for number, (start, stop) in enumerate(ranges) if counting[start:stop].all()
    ]
    return [merged_tokens.labels[number] for number in whole_words], np.array(
        [scores[slice(*ranges[number])].sum() for number in whole_words]
    )


def conclude(observations: Sequence[float]) -> Result:
    """Return the mean and the standard deviation over texts."""
    return mean_and_spread(SPEC, observations)


def evaluate(cases: Iterable[Case], measure: str, *, other: Lens, **options: Any) -> Result:
    """Return the mean over the cases on which the model of the lens `other` makes the same
    prediction.

    `details["examples"]` is the number of these cases.
    """
    return conclude([observe(case, measure, other=other, **options) for case in cases])
