"""Ask questions about every text, in this process or in worker processes.

A question is a function of a case, or a `functools.partial` of such a function. Its arguments may
contain a lens. Lenses are not sent to workers. Instead, each worker receives a name and inserts its
own lens.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from mixlens.errors import MixlensError, UnsupportedModel
from mixlens.evaluating.case import Case
from mixlens.papers.memory import Memory
from mixlens.runs.observing import Piece, Workers

if TYPE_CHECKING:
    from mixlens.datasets.examples import Example
    from mixlens.lens import Lens

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


def packed(questions: Mapping[str, Question], lens: Lens, other: Lens | None) -> bytes:
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
