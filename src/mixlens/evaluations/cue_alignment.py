"""Cue alignment: how much of a measure's row for the target lies on the words that decide the
answer.

Mohebbi et al. (2023), section 5 and appendix A.2: the target is masked, the cue words are known
from grammar, and a measure is good in so far as the row of the mask points at them. Three metrics:

* `dot`: the share of the row that lies on cue tokens (the row's dot product with the cue's
  indicator);
* `average_precision`: of the sources in the order of their scores, with the cue tokens as the right
  ones; ties as scikit-learn has them;
* `probes_needed`: how many other tokens come before the last cue token in that order (ties count
  as before).

By layer, or with the layers joined (`aggregate`). Sizes are compared if scores have signs. The
paper's code takes the first sub-word of a cue only: `cue_tokens="first"`.
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
    summary="how much of the row of a masked word lies on the words that decide it",
    citation='Mohebbi et al. (2023), "Quantifying Context Mixing in Transformers", section 5',
    direction="higher",
    kinds=("agreement",),
    by_layer=True,
)


def alignment(row: np.ndarray, cues: Sequence[int], metric: str = "dot") -> float:
    """One row [source] against the positions of the cue tokens."""
    if metric not in METRICS:
        raise InvalidInput(f"there is no metric {metric!r}; choose one of: {', '.join(METRICS)}")
    sizes = np.abs(np.asarray(row, np.float64))
    right = np.zeros(len(sizes), bool)
    right[list(cues)] = True
    if not right.any():
        raise InvalidInput("no cue is named")
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
    """`value`: with the layers joined; `layers`: of each. `options` are the measure's own."""
    if cue_tokens not in ("all", "first"):
        raise InvalidInput(f"cue_tokens={cue_tokens!r}: choose all or first")
    cues = [
        token for tokens in case.cues for token in (tokens if cue_tokens == "all" else tokens[:1])
    ]
    joined = alignment(case.target_row(measure, aggregate, **(options or {})), cues, metric)
    rows = case.layer_rows(measure, **(options or {}))
    return {"value": joined, "layers": [alignment(row, cues, metric) for row in rows]}


def conclude(observations: Sequence[dict[str, Any]], *, metric: str = "dot") -> Result:
    """The mean; `details["layers"]` is the same by layer."""
    spec = SPEC if metric != "probes_needed" else replace(SPEC, direction="lower")
    layers = np.array([seen["layers"] for seen in observations], np.float64)
    return Result.of(
        spec,
        [seen["value"] for seen in observations],
        details={"layers": layers.mean(0)} if len(layers) else {},
    )


def evaluate(cases: Iterable[Case], measure: str, *, metric: str = "dot", **options: Any) -> Result:
    """The mean over cases of agreement examples; options as in `observe`."""
    return conclude(
        [observe(case, measure, metric=metric, **options) for case in cases], metric=metric
    )
