"""Cache maps and observations of texts, so that all experiments of a run can use them.

Each entry is computed once, and kept if the cache has room for it.
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
    """Cache of maps and observations for each text and model, with up to `budget` bytes of
    arrays.
    """

    def __init__(self, budget: int = BUDGET) -> None:
        self._answers: dict[Any, Any] = {}
        self._cases: dict[Any, tuple[Case, int]] = {}
        self._left = budget

    def case(self, lens: Lens, example: Example, options: Mapping[str, Mapping[str, Any]]) -> Case:
        """Return the cached case of a text and a model, or a new case if none is cached."""
        case = Case(lens, example, options=options)
        return self._cases.get(_key_of(case), (case, 0))[0]

    def keep(self, case: Case) -> None:
        """Cache the maps of a case if they fit into the budget. The recording is released."""
        case.release_recordings()
        key = _key_of(case)
        self._left += self._cases.pop(key, (case, 0))[1]
        if case.bytes_of_maps <= self._left:
            self._cases[key] = (case, case.bytes_of_maps)
            self._left -= case.bytes_of_maps

    def ask(self, question: Callable[[Case], Any], case: Case) -> Any:
        """Return the answer to a question about a text, from the cache if possible."""
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
    """Return the cache key of a case: the model, the text and the options of measures."""
    return (case.lens, case.example, repr(case.options))


def label_of(question: Callable[..., Any]) -> str:
    """Return a label that identifies a question in every process."""
    if isinstance(question, partial):
        given = {name: _shown(value) for name, value in sorted(question.keywords.items())}
        return f"{label_of(question.func)} {[*map(_shown, question.args)]} {given}"
    return f"{question.__module__}.{question.__qualname__}"


def _shown(value: Any) -> str:
    """Format an argument for the label of a question.

    A lens is shown as its class name, because the settings of the run already identify the model.
    """
    return type(value).__name__ if hasattr(value, "model") else repr(value)


def _named(question: Callable[..., Any]) -> tuple[Any, ...]:
    """Return the cache key of a question: its function and all arguments."""
    if isinstance(question, partial):
        given = tuple(
            (name, _key(value))
            for name, value in sorted(question.keywords.items(), key=lambda item: item[0])
        )
        return (*_named(question.func), question.args, given)
    return (question,)


def _key(value: Any) -> Any:
    """Return a hashable key for an argument.

    A hashable object is its own key. For a dict, list or tuple, the key is a string of its
    contents.
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
