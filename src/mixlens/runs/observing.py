"""Ask the same questions about every text, and save the answers text by text.

Each text with all its questions is one piece of work. A piece depends only on its text, so a run
can stop after any piece and resume later or on another machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mixlens.evaluating.case import Case
from mixlens.measures import list_measures
from mixlens.runs.engines import Engine, Start, do_tasks
from mixlens.runs.job import ModelSource
from mixlens.runs.journal import Journal

if TYPE_CHECKING:
    from mixlens.datasets.examples import Example
    from mixlens.lens import Lens
    from mixlens.maps.mixing_maps import MixingMaps

Progress = Callable[[int, int, int], None]
"""Called before the first piece of work and after each, with the number of finished pieces, their
total, and how many an earlier run had finished.
"""

LONGEST_REASON = 500  # longest stored error, in characters


@dataclass(frozen=True, kw_only=True)
class Workers:
    """The engine of a run, and the models that its workers load."""

    engine: Engine
    source: ModelSource
    other: ModelSource | None = None


def work_through(
    tasks: Mapping[str, Any],
    run_here: Callable[[Any], Mapping[str, Any]],
    journal: Journal,
    progress: Progress | None = None,
    *,
    engine: Engine | None = None,
    start: Start[Any, Any] | None = None,
) -> None:
    """Run every task that is not in the journal yet, and write its result to the journal.

    Tasks run in this process with `run_here`, or in workers that `start` creates.
    """
    remaining = {name: task for name, task in tasks.items() if name not in journal.finished}
    names, before = list(remaining), len(tasks) - len(remaining)
    tell = progress or (lambda done, total, before: None)
    tell(before, len(tasks), before)
    answers: Iterator[tuple[int, Mapping[str, Any]]]
    if engine is None or engine.is_here or start is None:
        answers = enumerate(map(run_here, remaining.values()))
    else:
        answers = do_tasks(engine, start, list(remaining.values()))
    for count, (number, piece) in enumerate(answers, before + 1):
        journal.add(names[number], piece)
        tell(count, len(tasks), before)


@dataclass
class Piece:
    """The observations of one text, and the errors that occurred."""

    example: str
    group: str | None = None
    observations: list[dict[str, Any]] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)  # by measure

    def ask(
        self,
        answer: Callable[[], Any],
        *,
        failures: type[Exception] = Exception,
        **about: str | None,
    ) -> Exception | None:
        """Call `answer` and store its result. If it fails, store the error and return it.

        A run of many hours should not stop because one text raises an error.
        """
        try:
            self.observations.append({**about, "seen": answer()})
        except failures as error:
            self.note(error, **about)
            return error
        return None

    def note(self, error: Exception, **about: str | None) -> None:
        """Store an error."""
        reason = " ".join(str(error).split())[:LONGEST_REASON] or type(error).__name__
        self.errors.append({**about, "error": type(error).__name__, "reason": reason})

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dict that a journal can store."""
        return {**vars(self)}


class TimedCase(Case):
    """A case that records how long each measure takes, and does not repeat failed measures."""

    def __init__(
        self,
        lens: Lens,
        example: Example,
        *,
        options: Mapping[str, Mapping[str, Any]],
        pass_measures: Sequence[str] = (),
    ) -> None:
        super().__init__(lens, example, options=options, pass_measures=pass_measures)
        self.seconds: dict[str, float] = {}
        self._failed: dict[tuple[str, str], Exception] = {}

    def maps(self, measure: str, **options: Any) -> MixingMaps:
        """Return a measure's maps, which are computed once for this text and timed.

        If several measures are computed in one pass, the time of the pass is divided equally
        between the measures.
        """
        options, start = self._unusual(measure, options), time.perf_counter()
        before = set(self._maps)
        key = (measure, repr(sorted(options.items())))
        if key in self._failed:
            raise self._failed[key]
        try:
            return super().maps(measure, **options)
        except Exception as error:
            self._failed[key] = error
            raise
        finally:
            names = {name for name, _ in self._maps.keys() - before} or {measure}
            spent = (time.perf_counter() - start) / len(names)
            for name in names:
                self.seconds[name] = self.seconds.get(name, 0.0) + spent

    def _unusual(self, measure: str, options: dict[str, Any]) -> dict[str, Any]:
        """Return only the options that differ from the measure's defaults.

        Requests that differ only in default options are therefore computed once.
        """
        spec = list_measures().get(measure)
        if spec is None:
            return options
        usual = {option.name: option.default for option in spec.options}
        usual = {
            **usual,
            **(self.explain if spec.explains_output else {}),
            **self.options.get(measure, {}),
        }
        return {
            key: value for key, value in options.items() if key not in usual or usual[key] != value
        }
