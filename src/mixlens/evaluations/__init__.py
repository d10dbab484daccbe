"""Evaluations: a file in this folder is an evaluation.

`evaluations()` lists them; each file's `evaluate(...)` gives a `Result`.

An evaluation file holds

* `SPEC`, a `Spec`: what it asks, its citation, which way is better, which examples it takes;
* `observe(case, measure, **options)`, or `observe(case, **options)` where the model is judged: what
  one text says. A number, or a dict of numbers and arrays; it depends on nothing but that text, so
  that a long run may stop and go on;
* `conclude(observations, **options) -> Result`: what all texts say together. Where it is left out,
  their mean;
* `evaluate(...) -> Result`: both in one call.

A `Case` is one text recorded, with its maps remembered: asking for a measure twice computes it
once. `cases(lens, examples)` makes them.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from mixlens.errors import InvalidInput
from mixlens.evaluations.case import Case, cases
from mixlens.evaluations.contracts import Result, Spec
from mixlens.registry import entries

__all__ = ["Case", "Result", "Spec", "cases", "evaluate", "evaluations", "names"]


@functools.cache
def names() -> tuple[str, ...]:
    """Names of all evaluations, without importing them."""
    return entries(__path__)


def module(name: str) -> ModuleType:
    if name not in names():
        raise InvalidInput(f"there is no evaluation {name!r}; choose one of: {', '.join(names())}")
    return importlib.import_module(f"{__name__}.{name}")


def evaluations() -> dict[str, Spec]:
    """Name -> what the evaluation is."""
    return {name: module(name).SPEC for name in names()}


def evaluate(name: str, *given: Any, **options: Any) -> Result:
    """The `evaluate` of one evaluation; what it takes stands in its own documentation."""
    found: Result = module(name).evaluate(*given, **options)
    return found


def concluded(name: str, observations: Iterable[Any], **options: Any) -> Result:
    """What the observations of all texts say together."""
    found = module(name)
    conclude = getattr(found, "conclude", None)
    if conclude is None:
        return Result.of(found.SPEC, list(observations))
    known = inspect.signature(conclude).parameters
    result: Result = conclude(
        list(observations), **{key: value for key, value in options.items() if key in known}
    )
    return result
