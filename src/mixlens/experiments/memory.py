"""Answers that several experiments of one run share: asked of a text once, kept while they fit."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from mixlens.evaluations.case import Case

BUDGET = 2**30


class Memory:
    """Remembers what a question gave for a text under a model, up to `budget` bytes of arrays."""

    def __init__(self, budget: int = BUDGET) -> None:
        self._answers: dict[Any, Any] = {}
        self._left = budget

    def ask(self, question: Callable[[Case], Any], case: Case) -> Any:
        """The answer to a question about a text, computed once in a run."""
        key = (_named(question), case.lens, case.example, repr(case.options))
        if key in self._answers:
            return self._answers[key]
        answer = question(case)
        size = _bytes(answer)
        if size <= self._left:
            self._answers[key] = answer
            self._left -= size
        return answer


def label_of(question: Callable[..., Any]) -> str:
    """A question in words that mean the same in the next process."""
    if isinstance(question, partial):
        given = {name: _shown(value) for name, value in sorted(question.keywords.items())}
        return f"{label_of(question.func)} {[*map(_shown, question.args)]} {given}"
    return f"{question.__module__}.{question.__qualname__}"


def _shown(value: Any) -> str:
    """A model is named by its class: which one it is, is part of the run's settings."""
    return type(value).__name__ if hasattr(value, "model") else repr(value)


def _named(question: Callable[..., Any]) -> tuple[Any, ...]:
    """What makes two questions the same: the function and everything it was given."""
    if isinstance(question, partial):
        given = tuple(
            (name, _key(value))
            for name, value in sorted(question.keywords.items(), key=lambda item: item[0])
        )
        return (*_named(question.func), question.args, given)
    return (question,)


def _key(value: Any) -> Any:
    """The thing itself, so that no other can take its place; options in dicts and lists by what
    they say.
    """
    return value if isinstance(value, Hashable) and not isinstance(value, tuple) else repr(value)


def _bytes(answer: Any) -> int:
    if isinstance(answer, np.ndarray):
        return int(answer.nbytes)
    if isinstance(answer, Mapping):
        return sum(_bytes(value) for value in answer.values())
    if isinstance(answer, (list, tuple)):
        return sum(_bytes(value) for value in answer)
    return 64
