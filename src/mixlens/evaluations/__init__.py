"""Evaluations of measures, one per file.

`evaluations()` lists them. `evaluate(...)` of each file returns a `Result`.

An evaluation file defines

* `SPEC`, an `EvaluationSpec`: the question, the citation, the better direction, the accepted
  examples;
* `observe(case, measure, **options)`, or `observe(case, **options)` for an evaluation of the model:
  the observation of one text, a number or a dict of numbers and arrays. It depends only on that
  text, so that a long run can stop and resume;
* `conclude(observations, **options) -> Result`: the conclusion from all texts; by default their
  mean;
* `evaluate(...) -> Result`: both in one call.

A `Case` is a recorded text that caches its maps. `cases(lens, examples)` creates cases.

Add your own evaluation with `register(name, evaluation)`, or by an entry point of the group
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
    """Add your own evaluation: an object with `SPEC` and `observe`, like a file of this folder."""
    EVALUATIONS.register(name, evaluation)


def module(name: str) -> Any:
    """Return the module of an evaluation, or the object registered under the name."""
    return EVALUATIONS.entry(name)


def evaluations() -> dict[str, EvaluationSpec]:
    """Return the spec of each evaluation by name."""
    return {name: entry.SPEC for name, entry in EVALUATIONS.entries().items()}


def evaluate(name: str, *given: Any, **options: Any) -> Result:
    """Run the `evaluate` function of one evaluation. Its docstring lists the arguments."""
    result: Result = module(name).evaluate(*given, **options)
    return result


def conclude(name: str, observations: Iterable[Any], **options: Any) -> Result:
    """Return the conclusion from the observations of all texts."""
    own = getattr(module(name), "conclude", None)
    if own is None:
        return Result.of(module(name).SPEC, list(observations))
    known = inspect.signature(own).parameters
    result: Result = own(
        list(observations), **{key: value for key, value in options.items() if key in known}
    )
    return result
