"""Run every evaluation on one text or case, and compute each measure only once."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from mixlens.datasets.examples import Example
from mixlens.evaluations import module
from mixlens.measures import ready_measures
from mixlens.runs.observing import Piece, TimedCase, Workers

if TYPE_CHECKING:
    from mixlens.benchmark.plan import Plan
    from mixlens.lens import Lens

MODEL = ""  # in place of a measure when the model is evaluated


Task = Example | tuple[str, int]
"""A text, or an evaluation's own case, by its number."""


class Observer:
    """Evaluate tasks with one model. A task is a text, or a case that an evaluation defines
    itself.
    """

    def __init__(self, lens: Lens, plan: Plan) -> None:
        self.lens = lens
        self.plan = plan
        self._cases: dict[str, list[Any]] = {}

    def __call__(self, task: Task) -> dict[str, Any]:
        """Return the observations of one text or case."""
        if isinstance(task, Example):
            return observe_text(self.lens, task, self.plan)
        evaluation, number = task
        return observe_own_case(evaluation, self.cases(evaluation)[number], self.plan)

    def cases(self, evaluation: str) -> list[Any]:
        """Return the cases that an evaluation defines itself."""
        if evaluation not in self._cases:
            self._cases[evaluation] = list(module(evaluation).cases())
        return self._cases[evaluation]


def observer_for(workers: Workers, plan: Plan) -> Observer:
    """Load the models of a worker process, and return the observer that uses them."""
    other = None if workers.other is None else workers.other.load()
    return Observer(workers.source.load(), plan.receive(other))


def observe_text(lens: Lens, example: Example, plan: Plan) -> dict[str, Any]:
    """Record a text once, and run every measure and every evaluation on it."""
    piece = Piece(example.name, example.group)
    options = {name: plan.options[name] for name in ready_measures() if name in plan.options}
    case = TimedCase(lens, example, options=options, pass_measures=plan.measures)
    try:
        _ = case.recording
    except Exception as error:
        piece.note(error, measure=MODEL, evaluation=None)
        return piece.to_dict()
    for measure, evaluation in itertools.product(plan.measures, plan.of_measures):
        _observe(piece, plan, evaluation, case, measure)
    piece.seconds = dict(
        case.seconds
    )  # predictions of the model do not count as the time of a measure
    for evaluation in plan.of_model:
        _observe(piece, plan, evaluation, case)
    return piece.to_dict()


def observe_own_case(evaluation: str, case: Any, plan: Plan) -> dict[str, Any]:
    """Run every measure on one of the cases that an evaluation defines itself."""
    piece = Piece(f"{evaluation}: {case.name}")
    for measure in plan.measures:
        _observe(piece, plan, evaluation, case, measure)
    return piece.to_dict()


def _observe(piece: Piece, plan: Plan, evaluation: str, case: Any, *measure: str) -> None:
    observe, options = module(evaluation).observe, plan.options_of(evaluation)
    piece.ask(
        lambda: observe(case, *measure, **options),
        measure=measure[0] if measure else MODEL,
        evaluation=evaluation,
    )
