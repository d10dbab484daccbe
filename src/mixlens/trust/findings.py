"""What the pieces of a run say together: a column for each evaluation, results about the model, and
what went wrong.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixlens.errors import MixlensError
from mixlens.evaluations import Result, concluded, evaluations, module
from mixlens.evaluations.statistics import interval_of
from mixlens.trust.observing import MODEL
from mixlens.trust.plan import Plan
from mixlens.trust.ranks import Column

# Measures that an evaluation would judge by their own method: they erase words, or follow
# gradients, as it does.
SAME_METHOD: dict[str, frozenset[str]] = {
    "erasure": frozenset({"blank_out"}),
    "aopc": frozenset({"blank_out"}),
    "gradient_agreement": frozenset({"gradient_norm"}),
}


@dataclass(frozen=True)
class RowError:
    """Something that could not be done with one example."""

    example: str
    measure: str
    evaluation: str
    reason: str


@dataclass(frozen=True, eq=False)
class Findings:
    columns: tuple[Column, ...]
    of_model: Mapping[str, Result]
    seconds: Mapping[str, float]  # measure -> mean seconds for one text
    errors: tuple[RowError, ...]  # of single examples
    left_out: Mapping[str, str]  # measure or evaluation -> why it is not there at all


def findings(pieces: Iterable[Mapping[str, Any]], plan: Plan, texts: int) -> Findings:
    """`pieces` as the journal has them: each is named by the number of its text, or of the
    evaluation's own case.
    """
    seen: dict[tuple[str, str], dict[int, Any]] = defaultdict(dict)
    times: dict[str, list[float]] = defaultdict(list)
    errors: list[RowError] = []
    for piece in pieces:
        place = int(piece["piece"].split()[-1])
        for entry in piece["observations"]:
            seen[entry["evaluation"], entry["measure"]][place] = entry["seen"]
        for measure, spent in piece["seconds"].items():
            times[measure].append(spent)
        errors += [
            RowError(piece["example"], e["measure"], e["evaluation"] or "", e["reason"])
            for e in piece["errors"]
        ]
    left_out = {**plan.left_out, **_never(plan, seen, errors)}
    columns, of_model = [], {}
    for evaluation in (*plan.of_measures, *plan.own):
        column, failed = _column(evaluation, plan, seen, texts)
        errors += failed
        if column.results:
            columns.append(column)
    for evaluation in plan.of_model:
        try:
            of_model[evaluation] = _concluded(evaluation, plan, seen.get((evaluation, MODEL), {}))
        except _FAILURES as error:
            left_out.setdefault(evaluation, _reason(error))
    columns += _probing(of_model, seen, plan)
    kept = tuple(e for e in errors if e.measure not in left_out and e.evaluation not in left_out)
    return Findings(
        tuple(columns), of_model, {m: float(np.mean(t)) for m, t in times.items()}, kept, left_out
    )


# What a conclusion may fail by: too few examples for a split, a folder without scikit-learn.
_FAILURES = (MixlensError, ValueError, ArithmeticError, IndexError, np.linalg.LinAlgError)


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _never(
    plan: Plan, seen: Mapping[tuple[str, str], Any], errors: Sequence[RowError]
) -> dict[str, str]:
    """Measures and evaluations that gave nothing at all, with the most frequent reason."""
    found = {}
    there = {evaluation for evaluation, _ in seen}, {measure for _, measure in seen}
    for wanted, known, field in (
        ((*plan.of_measures, *plan.of_model, *plan.own), there[0], "evaluation"),
        (plan.measures, there[1], "measure"),
    ):
        for name in wanted:
            reasons = Counter(error.reason for error in errors if getattr(error, field) == name)
            if name not in known and reasons:
                (reason, count), *others = reasons.most_common()
                found[name] = reason + (f" ({count} of {reasons.total()} errors)" if others else "")
    return found


def _concluded(evaluation: str, plan: Plan, seen: Mapping[int, Any]) -> Result:
    return concluded(
        evaluation,
        [seen[place] for place in sorted(seen)],
        **plan.options_of(evaluation, "conclude"),
    )


def _column(
    evaluation: str, plan: Plan, seen: Mapping[tuple[str, str], Mapping[int, Any]], texts: int
) -> tuple[Column, list[RowError]]:
    results, values, errors = {}, {}, []
    by_text = evaluation not in plan.own
    examples = (
        texts
        if by_text
        else 1
        + max((place for key in seen if key[0] == evaluation for place in seen[key]), default=-1)
    )
    for measure in plan.measures:
        observations = seen.get((evaluation, measure), {})
        if not observations:
            continue
        try:
            result = _concluded(evaluation, plan, observations)
        except _FAILURES as error:
            errors.append(RowError("all together", measure, evaluation, _reason(error)))
            continue
        results[measure] = result
        values[measure] = _aligned(result.per_example, sorted(observations), examples)
    spec, itself = evaluations()[evaluation], SAME_METHOD.get(evaluation, frozenset())
    direction = next(iter(results.values())).direction if results else spec.direction
    return Column(evaluation, direction, results, values, by_text, itself, spec.summary), errors


def _aligned(per_example: np.ndarray, places: Sequence[int], examples: int) -> np.ndarray:
    """One number for each example, NaN where the measure gave none, so that measures can be
    compared example by example.
    """
    found = np.full(examples, math.nan)
    if len(per_example) == len(places):
        found[list(places)] = per_example
    return found


def _probing(
    of_model: Mapping[str, Result], seen: Mapping[tuple[str, str], Mapping[int, Any]], plan: Plan
) -> list[Column]:
    """Mohebbi et al.

    (2023), Table 2: do a measure's layers find the cue where the probe says that the model takes it
    in?
    """
    agreement = (
        getattr(module("probing"), "agreement_with", None) if "probing" in of_model else None
    )
    if agreement is None:
        return []
    compression = of_model["probing"].details["layers"]
    results = {}
    for measure in plan.measures:
        layers = [
            observation["layers"]
            for observation in seen.get(("cue_alignment", measure), {}).values()
        ]
        if layers and len(layers[0]) in (len(compression), len(compression) - 1):
            each = np.array(layers, np.float64)
            value = float(agreement(compression, each.mean(0)))
            interval = interval_of(each, lambda drawn: agreement(compression, drawn.mean(0)))
            results[measure] = Result(value, np.empty(0), interval, "higher", 0.0)
    summary = (
        "rank correlation over layers of how far a measure finds the cue and how well a probe reads"
        " it off the target"
    )
    return (
        [Column("probing", "higher", results, {}, by_text=False, summary=summary)]
        if results
        else []
    )
