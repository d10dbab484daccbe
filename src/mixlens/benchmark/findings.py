"""Combine the observations of a run into one column of results for each evaluation of measures, one
result for each evaluation of the model, and a list of errors.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixlens.benchmark.observing import MODEL
from mixlens.benchmark.plan import Plan
from mixlens.benchmark.standings import Column
from mixlens.errors import MixlensError
from mixlens.evaluations import Result, conclude, evaluations, module


@dataclass(frozen=True)
class RowError:
    """An error on one example, with the measure and the evaluation that failed."""

    example: str
    measure: str
    evaluation: str
    reason: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Findings:
    """The results of all evaluations, from which the measures are then ranked."""

    columns: tuple[Column, ...]
    of_model: Mapping[str, Result]
    seconds: Mapping[str, float]  # measure -> mean seconds per text
    errors: tuple[RowError, ...]  # errors of single examples
    left_out: Mapping[str, str]  # measure or evaluation -> reason for its absence


def conclude_run(entries: Iterable[Mapping[str, Any]], plan: Plan, texts: int) -> Findings:
    """Return the combined results of a run from the entries of its journal.

    Each entry belongs to one text, or to one of the cases that an evaluation defines itself. Its
    `piece` field ends with the index of this text or case.
    """
    observations: dict[tuple[str, str], dict[int, Any]] = defaultdict(dict)
    times: dict[str, list[float]] = defaultdict(list)
    errors: list[RowError] = []
    for piece in entries:
        place = int(piece["piece"].split()[-1])
        for entry in piece["observations"]:
            observations[entry["evaluation"], entry["measure"]][place] = entry["seen"]
        for measure, spent in piece["seconds"].items():
            times[measure].append(spent)
        errors += [
            RowError(piece["example"], e["measure"], e["evaluation"] or "", e["reason"])
            for e in piece["errors"]
        ]
    left_out = {**plan.left_out, **_silent(plan, observations, errors)}
    columns, of_model = [], {}
    for evaluation in (*plan.of_measures, *plan.own):
        column, failed = _column(evaluation, plan, observations, texts)
        errors += failed
        if column.results:
            columns.append(column)
    for evaluation in plan.of_model:
        try:
            of_model[evaluation] = _conclude(
                evaluation, plan, observations.get((evaluation, MODEL), {})
            )
        except _FAILURES as error:
            left_out.setdefault(evaluation, _reason(error))
    columns += _columns_through(of_model, observations, plan)
    reported_errors = tuple(
        e for e in errors if e.measure not in left_out and e.evaluation not in left_out
    )
    return Findings(
        columns=tuple(columns),
        of_model=of_model,
        seconds={measure: float(np.mean(spent)) for measure, spent in times.items()},
        errors=reported_errors,
        left_out=left_out,
    )


# A conclusion can fail: too few examples for a split, an environment without scikit-learn.
_FAILURES = (MixlensError, ValueError, ArithmeticError, IndexError, np.linalg.LinAlgError)


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _silent(
    plan: Plan, observations: Mapping[tuple[str, str], Any], errors: Sequence[RowError]
) -> dict[str, str]:
    """Return the measures and evaluations that have no result, each with its most frequent
    error.
    """
    reasons_by_name = {}
    answered = (
        {evaluation for evaluation, _ in observations},
        {measure for _, measure in observations},
    )
    for names, present, field in (
        ((*plan.of_measures, *plan.of_model, *plan.own), answered[0], "evaluation"),
        (plan.measures, answered[1], "measure"),
    ):
        for name in names:
            reasons = Counter(error.reason for error in errors if getattr(error, field) == name)
            if name not in present and reasons:
                (reason, count), *other_reasons = reasons.most_common()
                share = f" ({count} of {reasons.total()} errors)" if other_reasons else ""
                reasons_by_name[name] = reason + share
    return reasons_by_name


def _conclude(evaluation: str, plan: Plan, observations: Mapping[int, Any]) -> Result:
    return conclude(
        evaluation,
        [observations[place] for place in sorted(observations)],
        **plan.options_of(evaluation, "conclude"),
    )


def _column(
    evaluation: str,
    plan: Plan,
    all_observations: Mapping[tuple[str, str], Mapping[int, Any]],
    texts: int,
) -> tuple[Column, list[RowError]]:
    results, values, errors = {}, {}, []
    by_text = evaluation not in plan.own
    examples = (
        texts
        if by_text
        else 1
        + max(
            (
                place
                for key in all_observations
                if key[0] == evaluation
                for place in all_observations[key]
            ),
            default=-1,
        )
    )
    for measure in plan.measures:
        observations = all_observations.get((evaluation, measure), {})
        if not observations:
            continue
        try:
            result = _conclude(evaluation, plan, observations)
        except _FAILURES as error:
            errors.append(RowError("all together", measure, evaluation, _reason(error)))
            continue
        results[measure] = result
        values[measure] = _align_examples(result.per_example, sorted(observations), examples)
    spec = evaluations()[evaluation]
    column = Column(
        evaluation=evaluation,
        direction=next(iter(results.values())).direction if results else spec.direction,
        results=results,
        values=values,
        by_text=by_text,
        itself=frozenset(spec.same_method),
        summary=spec.summary,
    )
    return column, errors


def _align_examples(per_example: np.ndarray, places: Sequence[int], examples: int) -> np.ndarray:
    """Return one number for each example, or NaN for an example without a result.

    The result has the same length for every measure, so that measures can be compared example by
    example.
    """
    values = np.full(examples, math.nan)
    if len(per_example) == len(places):
        values[list(places)] = per_example
    return values


def _columns_through(
    of_model: Mapping[str, Result],
    all_observations: Mapping[tuple[str, str], Mapping[int, Any]],
    plan: Plan,
) -> Iterator[Column]:
    """Yield columns for evaluations of the model that also rank measures.

    For example, `probing` finds the layers that encode a label, and compares them with the layers
    in which a measure has a high cue alignment.
    """
    for name, result in of_model.items():
        spec = evaluations()[name]
        if spec.through is None:
            continue
        judgements = {
            measure: module(name).conclude_through(result, list(observations.values()))
            for measure in plan.measures
            if (observations := all_observations.get((spec.through, measure)))
        }
        results = {
            measure: judgement for measure, judgement in judgements.items() if judgement is not None
        }
        if results:
            direction = next(iter(results.values())).direction
            yield Column(
                evaluation=name,
                direction=direction,
                results=results,
                values={},
                by_text=False,
                summary=spec.through_summary,
            )
