"""Choose the sources and the explained output for evaluations that compare scores of one target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.datasets.examples import Agreement
from mixlens.errors import InvalidInput
from mixlens.evaluating.contracts import EvaluationSpec, Result
from mixlens.evaluating.statistics import spearman
from mixlens.measures import ready_measures

if TYPE_CHECKING:
    from mixlens.evaluating.case import Case

AGAINST = ("foil", "vocabulary")


def special(case: Case) -> np.ndarray:
    """Return a boolean mask [token] of the tokenizer's special tokens.

    An unknown word counts as a word.
    """
    tokens, unknown = case.row, getattr(case.lens.tokenizer, "unk_token", None)
    marks = tokens.special or (False,) * len(tokens)
    places = tokens.offsets or ((0, 1),) * len(tokens)
    return np.array(
        [
            mark and not (label == unknown and b > a)
            for mark, label, (a, b) in zip(marks, tokens.labels, places, strict=True)
        ],
        bool,
    )


def select_sources(case: Case, *, special_tokens: bool, include_target: bool) -> np.ndarray:
    """Return a boolean mask [source] of the sources to compare.

    The mask includes all words and, if requested, special tokens and the target itself (the mask
    token or [CLS]).
    """
    counts = np.ones(len(case.row), bool) if special_tokens else ~special(case)
    counts[case.target] = include_target
    return counts


def explained_options(case: Case, against: str | None) -> dict[str, Any]:
    """Return options that choose the explained output: the target against its foil, if there is
    one, or against all words or classes.
    """
    if against is None:
        return dict(case.explain)
    if against not in AGAINST:
        raise InvalidInput(f"Unknown against={against!r}. Choose one of: {', '.join(AGAINST)}.")
    if against == "foil":
        if not isinstance(case.example, Agreement):
            raise InvalidInput(
                f"{case.example.kind} examples have no foil. Pass against='vocabulary'."
            )
        return dict(case.explain)
    return {**case.explain, "foil": None}


def measured_row(
    case: Case, measure: str, aggregate: str | int, explained: dict[str, Any]
) -> np.ndarray:
    """Return the scores of a measure for the target.

    `explained` are options that select the output, for measures that explain an output.
    """
    specs = ready_measures()
    options = explained if measure in specs and specs[measure].explains_output else {}
    return case.target_row(measure, aggregate, **options)


def rank_agreement(
    scores: np.ndarray, reference: np.ndarray, counting: np.ndarray, *, signed: bool = False
) -> float:
    """Return Spearman's correlation between scores and reference scores, over the sources in
    `counting`.

    Absolute scores are compared unless `signed` is true. The correlation is NaN if one side is
    constant.
    """
    a, b = np.asarray(scores, np.float64)[counting], np.asarray(reference, np.float64)[counting]
    return spearman(a, b) if signed else spearman(np.abs(a), np.abs(b))


def mean_and_spread(spec: EvaluationSpec, observations: Sequence[float]) -> Result:
    """Return the mean over texts with its interval. `details["std"]` is the standard deviation over
    texts, which papers print after ±.
    """
    values = np.asarray(observations, np.float64)
    numbers = values[~np.isnan(values)]
    return Result.of(
        spec,
        values,
        details={
            "std": float(numbers.std()) if len(numbers) else math.nan,
            "examples": len(numbers),
        },
    )
