"""Evaluations of measures, one per file.

`evaluations()` lists them. `evaluate(...)` of each file returns a `Result`.

An evaluation file defines

* `SPEC`, an `EvaluationSpec` with the question, the citation, whether higher or lower values are
  better, and the accepted kinds of examples;
* `observe(case, measure, **options)`, or `observe(case, **options)` for an evaluation of the model,
  which returns the observation of one text as a number or as a dict of numbers and arrays (the
  observation must not depend on other texts, so that a long run can stop and resume);
* `conclude(observations, **options) -> Result`, which combines the observations of all texts (the
  default is their mean);
* `evaluate(...) -> Result`, which runs both functions in one call.

A `Case` is a recorded text that caches its maps. `cases(lens, examples)` creates cases.

Add your own evaluation with `register(name, evaluation)`, or with an entry point in the group
`mixlens.evaluations`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from mixlens.evaluating.case import Case, cases
from mixlens.evaluating.contracts import Evaluation, EvaluationSpec, Result
from mixlens.registry import Registry

__all__ = [
    "EVALUATIONS",
    "Case",
    "EvaluationSpec",
    "Result",
    "cases",
    "evaluate",
    "evaluations",
    "names",
]

EVALUATIONS: Registry[Evaluation] = Registry("evaluation", __name__)


def names() -> tuple[str, ...]:
    """Return the names of all evaluations, without importing them."""
    return EVALUATIONS.names()


def register(name: str, evaluation: Evaluation) -> None:
    """Register your own evaluation, an object that has `SPEC` and `observe` like the modules of
    this package.
    """
    EVALUATIONS.register(name, evaluation)


def module(name: str) -> Any:
    """Return the module of an evaluation, or the object that was registered under this name."""
    return EVALUATIONS.entry(name)


def evaluations() -> dict[str, EvaluationSpec]:
    """Return the spec of each evaluation by name."""
    return {name: entry.SPEC for name, entry in EVALUATIONS.entries().items()}


def evaluate(name: str, *arguments: Any, **options: Any) -> Result:
    """Run the `evaluate` function of one evaluation. Its docstring lists the arguments."""
    result: Result = module(name).evaluate(*arguments, **options)
    return result


def conclude(name: str, observations: Iterable[Any], **options: Any) -> Result:
    """Combine the observations of all texts into the result of one evaluation."""
    combine = getattr(module(name), "conclude", None)
    if combine is None:
        return Result.of(module(name).SPEC, list(observations))
    accepted = inspect.signature(combine).parameters
    result: Result = combine(
        list(observations), **{key: value for key, value in options.items() if key in accepted}
    )
    return result
