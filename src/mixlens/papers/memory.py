"""What several experiments of one run share: the answers to the same question about a text, and
what measures say of it. Both are computed once and kept while they fit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.evaluating.case import Case

if TYPE_CHECKING:
    from mixlens.datasets.examples import Example
    from mixlens.lens import Lens

BUDGET = 2**30


class Memory:
    """Remembers what a question and what measures gave for a text under a model, up to `budget`
    bytes of arrays.
    """

    def __init__(self, budget: int = BUDGET) -> None:
        self._answers: dict[Any, Any] = {}
        self._cases: dict[Any, tuple[Case, int]] = {}
        self._left = budget

    def case(self, lens: Lens, example: Example, options: Mapping[str, Mapping[str, Any]]) -> Case:
        """A text under a model, with what measures said of it before."""
        case = Case(lens, example, options=options)
        return self._cases.get(_key_of(case), (case, 0))[0]

    def keep(self, case: Case) -> None:
        """Keeps what measures said of a text, without its recording; forgets it if it is too
        much.
        """
        case.release_recordings()
        key = _key_of(case)
        self._left += self._cases.pop(key, (case, 0))[1]
        if case.bytes_of_maps <= self._left:
            self._cases[key] = (case, case.bytes_of_maps)
            self._left -= case.bytes_of_maps

    def ask(self, question: Callable[[Case], Any], case: Case) -> Any:
        """The answer to a question about a text, computed once in a run."""
        key = (_named(question), *_key_of(case))
        if key in self._answers:
            return self._answers[key]
        answer = question(case)
        size = _bytes(answer)
        if size <= self._left:
            self._answers[key] = answer
            self._left -= size
        return answer


def _key_of(case: Case) -> tuple[Any, ...]:
    """What makes two cases the same: the text, the model and the options of measures."""
    return (case.lens, case.example, repr(case.options))


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
