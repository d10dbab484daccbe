"""Evaluations: a file in this folder is an evaluation.

`evaluations()` lists them; each file's `evaluate(...)` gives a `Result`.

An evaluation file holds

* `SPEC`, an `EvaluationSpec`: what it asks, its citation, which way is better, which examples it
  takes;
* `observe(case, measure, **options)`, or `observe(case, **options)` if the model is judged: what
  one text says. A number, or a dict of numbers and arrays; it depends on nothing but that text, so
  that a long run may stop and resume;
* `conclude(observations, **options) -> Result`: what all texts say together. If it is left out,
  their mean;
* `evaluate(...) -> Result`: both in one call.

A `Case` is one text recorded, with its maps remembered: asking for a measure twice computes it
once. `cases(lens, examples)` makes them.

Others add theirs by `register(name, evaluation)`, or by an entry point of the group
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
    """Names of all evaluations, without importing them."""
    return EVALUATIONS.names()


def register(name: str, evaluation: Evaluation) -> None:
    """Adds an evaluation of your own: an object with `SPEC` and `observe`, as a file here has."""
    EVALUATIONS.register(name, evaluation)


def module(name: str) -> Any:
    """The file behind a name, or what was registered under it."""
    return EVALUATIONS.entry(name)


def evaluations() -> dict[str, EvaluationSpec]:
    """Name -> what the evaluation is."""
    return {name: entry.SPEC for name, entry in EVALUATIONS.entries().items()}


def evaluate(name: str, *given: Any, **options: Any) -> Result:
    """The `evaluate` of one evaluation; its own documentation says what it takes."""
    result: Result = module(name).evaluate(*given, **options)
    return result


def conclude(name: str, observations: Iterable[Any], **options: Any) -> Result:
    """What the observations of all texts say together."""
    own = getattr(module(name), "conclude", None)
    if own is None:
        return Result.of(module(name).SPEC, list(observations))
    known = inspect.signature(own).parameters
    result: Result = own(
        list(observations), **{key: value for key, value in options.items() if key in known}
    )
    return result
