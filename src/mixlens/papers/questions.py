"""Ask questions about every text, in this process or in worker processes, and cache the answers, so
that all experiments of a run can use them.

A question is a function of a case, or a `functools.partial` of such a function. Its arguments may
contain a lens. Lenses are not sent to workers. Instead, each worker receives a name and inserts its
own lens.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.errors import MixlensError, UnsupportedModel
from mixlens.evaluating.case import Case
from mixlens.runs.observing import Piece, Workers

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
        self._remaining = budget

    def case(self, lens: Lens, example: Example, options: Mapping[str, Mapping[str, Any]]) -> Case:
        """Return the cached case of a text and a model, or a new case if none is cached."""
        case = Case(lens, example, options=options)
        return self._cases.get(_key_of(case), (case, 0))[0]

    def keep(self, case: Case) -> None:
        """Cache the maps of a case if they fit into the budget. The recording is released."""
        case.release_recordings()
        key = _key_of(case)
        self._remaining += self._cases.pop(key, (case, 0))[1]
        if case.bytes_of_maps <= self._remaining:
            self._cases[key] = (case, case.bytes_of_maps)
            self._remaining -= case.bytes_of_maps

    def ask(self, question: Callable[[Case], Any], case: Case) -> Any:
        """Return the answer to a question about a text, from the cache if possible."""
        key = (_cache_key(question), *_key_of(case))
        if key in self._answers:
            return self._answers[key]
        answer = question(case)
        size = _bytes(answer)
        if size <= self._remaining:
            self._answers[key] = answer
            self._remaining -= size
        return answer


def _key_of(case: Case) -> tuple[Any, ...]:
    """Return the cache key of a case: the model, the text and the options of measures."""
    return (case.lens, case.example, repr(case.options))


def label_of(question: Callable[..., Any]) -> str:
    """Return a label that identifies a question in every process."""
    if isinstance(question, partial):
        keywords = {
            name: _format_argument(value) for name, value in sorted(question.keywords.items())
        }
        return f"{label_of(question.func)} {[*map(_format_argument, question.args)]} {keywords}"
    return f"{question.__module__}.{question.__qualname__}"


def _format_argument(value: Any) -> str:
    """Format an argument for the label of a question.

    A lens is shown as its class name, because the settings of the run already identify the model.
    """
    return type(value).__name__ if hasattr(value, "model") else repr(value)


def _cache_key(question: Callable[..., Any]) -> tuple[Any, ...]:
    """Return the cache key of a question: its function and all arguments."""
    if isinstance(question, partial):
        keywords = tuple(
            (name, _key(value))
            for name, value in sorted(question.keywords.items(), key=lambda item: item[0])
        )
        return (*_cache_key(question.func), question.args, keywords)
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


Question = Callable[[Case], Any]


class Asker:
    """Ask questions about one model.

    If the model does not support a question, the question is not asked again for later texts.
    """

    def __init__(
        self,
        lens: Lens,
        questions: Mapping[str, Question],
        measure_options: Mapping[str, Mapping[str, Any]],
        memory: Memory,
    ) -> None:
        self.lens = lens
        self.questions: dict[str, Question] = dict(questions)
        self.measure_options = measure_options
        self.memory = memory

    def __call__(self, example: Example) -> dict[str, Any]:
        """Return the answers to all questions about one text."""
        piece = Piece(example.name, example.group)
        case = self.memory.case(self.lens, example, self.measure_options)
        for label, question in list(self.questions.items()):
            ask = partial(self.memory.ask, question, case)
            error = piece.ask(ask, failures=MixlensError, question=label)
            if isinstance(error, UnsupportedModel):
                del self.questions[label]
            elif error is not None:
                break
        self.memory.keep(case)
        return piece.to_dict()


@dataclass(frozen=True, kw_only=True)
class Sent:
    """The pickled questions and the settings from which a worker creates its `Asker`."""

    workers: Workers
    packed: bytes
    measure_options: Mapping[str, Mapping[str, Any]]

    def start(self) -> Asker:
        """Create an `Asker` in the worker process."""
        models = {"lens": self.workers.source.load()}
        if self.workers.other is not None:
            models["other"] = self.workers.other.load()
        questions = QuestionReader(io.BytesIO(self.packed), models).load()
        # A worker lives for one round of questions, so nothing would be asked twice.
        return Asker(models["lens"], questions, self.measure_options, Memory(budget=0))


def pack_questions(questions: Mapping[str, Question], lens: Lens, other: Lens | None) -> bytes:
    """Pickle the questions, and replace each lens with a name."""
    content = io.BytesIO()
    pickler = _Pickler(content)
    pickler.names = {id(lens): "lens"} | ({} if other is None else {id(other): "other"})
    pickler.dump(dict(questions))
    return content.getvalue()


class _Pickler(pickle.Pickler):
    names: Mapping[int, str]

    def persistent_id(self, value: Any) -> str | None:
        return self.names.get(id(value))


class QuestionReader(pickle.Unpickler):
    """Unpickle questions, and replace each name with the lens of this process."""

    def __init__(self, content: io.BytesIO, models: Mapping[str, Lens]) -> None:
        super().__init__(content)
        self._models = models

    def persistent_load(self, name: str) -> Lens:
        """Return the lens with this name."""
        return self._models[name]
