"""Gradient agreement: do a measure's scores rank the tokens as the gradient of the prediction does?

Spearman's rank correlation, text by text, between the measure's row for the target and the lengths
of the gradient of the explained output with respect to each token's embedding. Ferrando et al.
(2022), section 4.1 and table 2 (the columns of SST-2): a classifier's row of [CLS] in the rollout,
special tokens included, the gradient of the softmax probability of the predicted class, l2 norms.
These are the defaults here.

`special=False` and `own=False` leave out the special tokens and the target. Whether the gradient
itself is a good reference is open: it is a local sensitivity, and saturated outputs have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from mixlens.evaluating.contracts import EvaluationSpec, Result
from mixlens.evaluating.sources import (
    counted,
    explained_options,
    mean_and_spread,
    measured_row,
    rank_agreement,
)
from mixlens.maps.one_row import shares

if TYPE_CHECKING:
    from mixlens.evaluating.case import Case

SPEC = EvaluationSpec(
    summary="rank correlation of a measure's row with the length of the gradient for each token",
    citation=(
        'Ferrando et al. (2022), "Measuring the Mixing of Contextual Information in the'
        ' Transformer", section 4.1, table 2'
    ),
    direction="higher",
    kinds=("classification", "agreement"),
    chance=0.0,
    same_method=("gradient_norm",),
    cost="the measure itself, and one backward pass once for each text",
)


def observe(
    case: Case,
    measure: str,
    *,
    aggregate: str | int = "rollout",
    against: str | None = None,
    of: str = "probability",
    reduction: str = "l2",
    special: bool = True,
    own: bool = True,
) -> float:
    """The rank correlation of one text; NaN if all scores, or all gradients, are the same."""
    explained = explained_options(case, against)
    reference = shares(
        case.maps("gradient_norm", **explained, of=of, reduction=reduction).scores[0, 0]
    )
    row = measured_row(case, measure, aggregate, explained)
    return rank_agreement(row, reference, counted(case, special_tokens=special, own=own))


def conclude(observations: Sequence[float]) -> Result:
    """The mean over texts, with their spread."""
    return mean_and_spread(SPEC, observations)


def evaluate(cases: Iterable[Case], measure: str, **options: Any) -> Result:
    """The mean over cases; options as in `observe`. `details["std"]` is the spread over texts."""
    return conclude([observe(case, measure, **options) for case in cases])
