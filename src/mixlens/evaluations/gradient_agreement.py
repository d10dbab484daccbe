"""Gradient agreement: do a measure's scores rank tokens in the same order as the gradient of the
prediction? The value of a text is Spearman's rank correlation between the measure's scores for the
target and the norms of the gradient of the explained output with respect to each token's embedding.
Ferrando et al. (2022), section 4.1 and table 2 (the SST-2 columns), use the rollout scores of a
classifier's [CLS] token (including special tokens as sources), the gradient of the softmax
probability of the predicted class, and l2 norms. These are the defaults.

`special=False` and `own=False` exclude the special tokens and the target. Whether the gradient is a
good reference is an open question. It measures local sensitivity, and vanishes for saturated
outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from mixlens.evaluating.contracts import EvaluationSpec, Result
from mixlens.evaluating.sources import (
    explained_options,
    mean_and_spread,
    measured_row,
    rank_agreement,
    select_sources,
)
from mixlens.maps.one_row import shares

if TYPE_CHECKING:
    from mixlens.evaluating.case import Case

SPEC = EvaluationSpec(
    summary="rank correlation of a measure's scores with the norm of the gradient for each token",
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
    """Return the rank correlation of one text, or NaN if all scores or all gradients are equal."""
    explained = explained_options(case, against)
    reference = shares(
        case.maps("gradient_norm", **explained, of=of, reduction=reduction).scores[0, 0]
    )
    scores = measured_row(case, measure, aggregate, explained)
    return rank_agreement(
        scores, reference, select_sources(case, special_tokens=special, include_target=own)
    )


def conclude(observations: Sequence[float]) -> Result:
    """Return the mean over texts, with their standard deviation."""
    return mean_and_spread(SPEC, observations)


def evaluate(cases: Iterable[Case], measure: str, **options: Any) -> Result:
    """Return the mean over cases. The options are those of `observe`.

    `details["std"]` is the standard deviation over texts.
    """
    return conclude([observe(case, measure, **options) for case in cases])
