"""One piece of work: what every evaluation sees of one text, each measure computed once.

Whatever goes wrong names the text and goes on.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mixlens.evaluations import module
from mixlens.evaluations.case import Case
from mixlens.measures import list_measures

if TYPE_CHECKING:
    from mixlens.corpus.examples import Example
    from mixlens.lens import Lens
    from mixlens.maps import MixingMaps
    from mixlens.trust.plan import Plan

MODEL = ""  # stands where a measure stands when the model itself is judged


class TimedCase(Case):
    """A case that knows how long each measure took, and does not try twice what failed."""

    def __init__(
        self, lens: Lens, example: Example, *, options: Mapping[str, Mapping[str, Any]]
    ) -> None:
        super().__init__(lens, example, options=options)
        self.seconds: dict[str, float] = {}
        self._failed: dict[tuple[str, str], Exception] = {}

    def maps(self, measure: str, **options: Any) -> MixingMaps:
        options, start = self._unusual(measure, options), time.perf_counter()
        key = (measure, repr(sorted(options.items())))
        if key in self._failed:
            raise self._failed[key]
        try:
            return super().maps(measure, **options)
        except Exception as error:
            self._failed[key] = error
            raise
        finally:
            self.seconds[measure] = self.seconds.get(measure, 0.0) + time.perf_counter() - start

    def _unusual(self, measure: str, options: dict[str, Any]) -> dict[str, Any]:
        """The options that are not what the measure does anyway: what is asked for in two ways is
        computed once.
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


class Piece:
    """Collects what was seen and what went wrong."""

    def __init__(self, example: str, group: str | None = None) -> None:
        self.example, self.group = example, group
        self.observations: list[dict[str, Any]] = []
        self.errors: list[dict[str, Any]] = []
        self.seconds: dict[str, float] = {}

    def tried(
        self, work: Callable[[], Any], *, measure: str = MODEL, evaluation: str | None = None
    ) -> bool:
        """Does one step.

        One that fails is written down: a run of hours must not end for one text, whatever its error
        is.
        """
        try:
            seen = work()
        except Exception as error:
            reason = " ".join(str(error).split())[:500] or type(error).__name__
            self.errors.append(
                {
                    "measure": measure,
                    "evaluation": evaluation,
                    "error": type(error).__name__,
                    "reason": reason,
                }
            )
            return False
        if evaluation is not None:
            self.observations.append({"evaluation": evaluation, "measure": measure, "seen": seen})
        return True


def text_observed(lens: Lens, example: Example, plan: Plan) -> dict[str, Any]:
    """One recording, every measure, every evaluation that reads the user's texts."""
    piece = Piece(example.name, example.group)
    case = TimedCase(
        lens,
        example,
        options={name: plan.options[name] for name in list_measures() if name in plan.options},
    )
    if piece.tried(lambda: case.recording):
        for measure, evaluation in itertools.product(plan.measures, plan.of_measures):
            _observe(piece, plan, evaluation, case, measure)
        piece.seconds = dict(case.seconds)  # what the model is asked for costs the measures nothing
        for evaluation in plan.of_model:
            _observe(piece, plan, evaluation, case)
    return vars(piece)


def own_observed(evaluation: str, case: Any, plan: Plan) -> dict[str, Any]:
    """Every measure on a case that the evaluation brings."""
    piece = Piece(f"{evaluation}: {case.name}")
    for measure in plan.measures:
        _observe(piece, plan, evaluation, case, measure)
    return vars(piece)


def _observe(piece: Piece, plan: Plan, evaluation: str, case: Any, *measure: str) -> None:
    observe, options = module(evaluation).observe, plan.options_of(evaluation)
    piece.tried(
        lambda: observe(case, *measure, **options),
        measure=measure[0] if measure else MODEL,
        evaluation=evaluation,
    )
