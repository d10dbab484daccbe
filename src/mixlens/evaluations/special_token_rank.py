"""Special-token rank: how relevant are special tokens and punctuation to a measure?

Ferrando et al. (2022), section 5 and figure 6: the sources of a text are sorted by relevance, and
the ranks of [CLS], [SEP], comma and period are averaged. Here a rank is (r - 1) / (n - 1), with r =
1 for the least relevant of n sources: 0 is the least and 1 the most relevant source, and chance
level is one half for texts of any length. Tied sources share the mean of their ranks. Special
tokens are those of the tokenizer (whatever their names), except mask tokens and unknown tokens.

The value describes a measure, and neither high nor low values are better. The authors argue that
these tokens carry little information, and that a measure which ranks them high is misled by
attention that has no effect. But a model may store information in them. The authors' code
(`variant="ferrando2022"`) divides r by n, uses the first token of each kind, and averages over
tokens, not texts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.errors import InvalidInput
from mixlens.evaluating.contracts import EvaluationSpec, Result
from mixlens.evaluating.sources import special
from mixlens.evaluating.statistics import interval_of, tied_ranks

if TYPE_CHECKING:
    from mixlens.evaluating.case import Case

PUNCTUATION = (",", ".")
VARIANTS = ("default", "ferrando2022")

SPEC = EvaluationSpec(
    summary=("rank of special tokens, commas and periods by relevance (0 least, 1 most relevant)"),
    citation=(
        'Ferrando et al. (2022), "Measuring the Mixing of Contextual Information in the'
        ' Transformer", section 5, figure 6'
    ),
    direction="neither",
    kinds=("classification", "agreement", "text", "tagged"),
    chance=0.5,
)


def relevance_places(scores: np.ndarray, variant: str = "default") -> np.ndarray:
    """Return the normalised rank of each source by absolute score.

    The rank is NaN if there is only one source.
    """
    if variant not in VARIANTS:
        raise InvalidInput(f"Unknown variant {variant!r}. Choose one of: {', '.join(VARIANTS)}.")
    sizes = np.abs(np.asarray(scores, np.float64))
    if len(sizes) < 2:
        return np.full(len(sizes), math.nan)
    ranks = tied_ranks(sizes)
    return ranks / len(sizes) if variant == "ferrando2022" else (ranks - 1) / (len(sizes) - 1)


def places_by_token(
    scores: np.ndarray, labels: Sequence[str], tokens: Iterable[str], variant: str = "default"
) -> dict[str, list[float]]:
    """Return the normalised ranks of each requested label that occurs in the text."""
    places, by_token = relevance_places(scores, variant), {}
    for label in dict.fromkeys(tokens):
        at = [i for i, other in enumerate(labels) if other == label]
        if at:
            by_token[label] = [
                float(places[i]) for i in (at[:1] if variant == "ferrando2022" else at)
            ]
    return by_token


def observe(
    case: Case, measure: str, *, aggregate: str | int = "rollout", variant: str = "default"
) -> dict[str, Any]:
    """Return `value` (the mean rank in this text) and `places` (the ranks of each token)."""
    labels = [_bare(label) for label in case.row.labels]
    mask = getattr(case.lens.tokenizer, "mask_token", None)
    special_labels = [
        label for label, mark in zip(labels, special(case), strict=True) if mark and label != mask
    ]
    places = places_by_token(
        case.target_row(measure, aggregate), labels, [*special_labels, *PUNCTUATION], variant
    )
    flat = [place for of_token in places.values() for place in of_token]
    return {"value": float(np.mean(flat)) if flat else math.nan, "places": places}


def _bare(label: str) -> str:
    """Return a token label without the marker for a leading space, such as Ġ."""
    return label.lstrip("▁Ġ") or label


def _mean(places: Sequence[float]) -> float:
    numbers = [place for place in places if not math.isnan(place)]
    return float(np.mean(numbers)) if numbers else math.nan


def conclude(observations: Sequence[dict[str, Any]], *, variant: str = "default") -> Result:
    """Return the mean over texts.

    `details["tokens"]` is the mean rank of each token, and `details["counts"]` the number of texts
    that contain it.
    """
    pooled: dict[str, list[float]] = {}
    for observation in observations:
        for label, places in observation["places"].items():
            pooled.setdefault(label, []).extend(places)
    details = {
        "tokens": {label: _mean(places) for label, places in pooled.items()},
        "counts": {label: len(places) for label, places in pooled.items()},
    }
    values = [observation["value"] for observation in observations]
    if variant != "ferrando2022" or not pooled:
        return Result.of(SPEC, values, details=details)
    flat = [
        [place for places in observation["places"].values() for place in places]
        for observation in observations
    ]
    sums = np.array([[sum(places), len(places)] for places in flat], np.float64)
    interval = interval_of(
        sums, lambda resamples: resamples[..., 0].sum(1) / resamples[..., 1].sum(1)
    )
    return Result.of(
        SPEC,
        values,
        value=float(sums[:, 0].sum() / sums[:, 1].sum()),
        interval=interval,
        details=details,
    )


def evaluate(
    cases: Iterable[Case],
    measure: str,
    *,
    aggregate: str | int = "rollout",
    variant: str = "default",
) -> Result:
    """Return the mean over cases. `details` holds the results for each token."""
    return conclude(
        [observe(case, measure, aggregate=aggregate, variant=variant) for case in cases],
        variant=variant,
    )
