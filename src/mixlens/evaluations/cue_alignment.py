"""Cue alignment: what fraction of the target's scores falls on the words that determine the answer?

Mohebbi et al. (2023), section 5 and appendix A.2: the target is masked and grammar defines the cue
words. A good measure gives the cue words high scores for this target. There are three metrics:

* `dot`: the fraction of the target's scores that falls on cue tokens (a dot product with the
  indicator vector of the cue);
* `average_precision`: the average precision of the sources sorted by score, with the cue tokens as
  positives (ties are treated as in scikit-learn);
* `probes_needed`: the number of other tokens ranked before the last cue token (tied tokens count as
  ranked before it).

Each metric is computed for every layer, and for the aggregated layers (`aggregate`). Signed scores
are compared by absolute value. The paper's code uses only the first sub-word of a cue; pass
`cue_tokens="first"` to do the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.errors import InvalidInput, MissingExtra
from mixlens.evaluating.contracts import EvaluationSpec, Result

if TYPE_CHECKING:
    from mixlens.evaluating.case import Case

METRICS = ("dot", "average_precision", "probes_needed")

SPEC = EvaluationSpec(
    summary="how much of the scores of a masked word falls on the words that decide it",
    citation='Mohebbi et al. (2023), "Quantifying Context Mixing in Transformers", section 5',
    direction="higher",
    kinds=("agreement",),
    by_layer=True,
)


def alignment(scores: np.ndarray, cues: Sequence[int], metric: str = "dot") -> float:
    """Return the requested metric, given the scores [source] of a target and the positions of the
    cue tokens.
    """
    if metric not in METRICS:
        raise InvalidInput(f"Unknown metric {metric!r}. Choose one of: {', '.join(METRICS)}.")
    sizes = np.abs(np.asarray(scores, np.float64))
    right = np.zeros(len(sizes), bool)
    right[list(cues)] = True
    if not right.any():
        raise InvalidInput("The example has no cue. Use data with cues.")
    if not np.isfinite(sizes).all():
        return math.nan
    if metric == "dot":
        total = sizes.sum()
        return float(sizes[right].sum() / total) if total > 0 else 0.0
    if metric == "probes_needed":
        return float((sizes[~right] >= sizes[right].min()).sum())
    try:
        from sklearn.metrics import average_precision_score
    except ImportError as error:
        raise MissingExtra("scikit-learn") from error
    return float(average_precision_score(right, sizes))


def observe(
    case: Case,
    measure: str,
    *,
    metric: str = "dot",
    aggregate: str | int = "rollout",
    cue_tokens: str = "all",
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return `value` for the aggregated layers, and `layers` with one value per layer.

    `options` are those of the measure.
    """
    if cue_tokens not in ("all", "first"):
        raise InvalidInput(f"Unknown cue_tokens {cue_tokens!r}. Choose all or first.")
    cues = [
        token for tokens in case.cues for token in (tokens if cue_tokens == "all" else tokens[:1])
    ]
    aggregated = alignment(case.target_row(measure, aggregate, **(options or {})), cues, metric)
    by_layer = case.layer_rows(measure, **(options or {}))
    return {"value": aggregated, "layers": [alignment(scores, cues, metric) for scores in by_layer]}


def conclude(observations: Sequence[dict[str, Any]], *, metric: str = "dot") -> Result:
    """Return the mean over texts. `details["layers"]` has the mean of each layer."""
    spec = SPEC if metric != "probes_needed" else replace(SPEC, direction="lower")
    layers = np.array([observation["layers"] for observation in observations], np.float64)
    return Result.of(
        spec,
        [observation["value"] for observation in observations],
        details={"layers": layers.mean(0)} if len(layers) else {},
    )


def evaluate(cases: Iterable[Case], measure: str, *, metric: str = "dot", **options: Any) -> Result:
    """Return the mean over agreement examples. The options are those of `observe`."""
    return conclude(
        [observe(case, measure, metric=metric, **options) for case in cases], metric=metric
    )
