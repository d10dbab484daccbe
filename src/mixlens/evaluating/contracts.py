"""Define the description of an evaluation, and its result."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from mixlens.evaluating.statistics import interval_of
from mixlens.maps.provenance import plain

DIRECTIONS = ("higher", "lower", "neither")


class Detail(NamedTuple):
    """The description of one entry in `Result.details`."""

    words: str
    # "": a number. "layer": one for each layer. "state": the input of the first layer, then each.
    axis: str = ""


@dataclass(frozen=True, kw_only=True)
class EvaluationSpec:
    """An evaluation's description."""

    summary: str
    citation: str
    direction: str  # "higher" or "lower" is better, or "neither" for a description
    kinds: tuple[
        str, ...
    ]  # kinds of examples that it accepts (`Example.kind`); empty if it has its own
    of: str = "measure"  # evaluates a "measure" or the "model"
    chance: float | None = None  # the value of an uninformative measure, if known
    cost: str = "the measure itself"
    same_method: tuple[
        str, ...
    ] = ()  # measures that work like the evaluation and would evaluate themselves
    by_default: bool = True  # whether a benchmark runs it by default
    by_layer: bool = False  # whether `Result.details["layers"]` holds its value for each layer
    judges_data: bool = (
        False  # for evaluations of a model: at chance, measures cannot be compared on these data
    )
    # For evaluations of a model: the evaluation of measures whose observations it also uses, in the
    # function `conclude_through(result, observations)`, and the question this answers.
    through: str | None = None
    through_summary: str = ""

    # For evaluations of a model: the entries of `Result.details` that a report shows, with their
    # meaning. An entry of a mapping is written "mapping.part".
    reports: Mapping[str, Detail] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.direction not in DIRECTIONS:
            raise ValueError(
                f"Unknown direction {self.direction!r}. Choose one of: {', '.join(DIRECTIONS)}."
            )


class Evaluation(Protocol):
    """The protocol that modules in `mixlens.evaluations` and plug-ins implement.

    An evaluation may also define `conclude`, `evaluate` and `cases`.
    """

    @property
    def SPEC(self) -> EvaluationSpec:
        """Return the description of the evaluation."""

    def observe(self, case: Any, /, *args: Any, **options: Any) -> Any:
        """Return the observation of one text."""


@dataclass(frozen=True, eq=False)
class Result:
    """The result of an evaluation: a value with its interval, and one number for each example."""

    value: float
    per_example: np.ndarray  # one number per example, NaN if it has none
    interval: tuple[float, float]  # bootstrap over the examples, 95 %
    direction: str
    chance: float | None = None
    details: Mapping[str, Any] = field(
        default_factory=dict
    )  # further numbers: by layer, by category ...

    @classmethod
    def of(
        cls,
        spec: EvaluationSpec,
        per_example: Sequence[float] | np.ndarray,
        *,
        value: float | None = None,
        interval: tuple[float, float] | None = None,
        details: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> Result:
        """Return a result from one number for each example.

        By default, the value is the mean over all examples whose number is not NaN, with a
        bootstrap interval.
        """
        values = np.asarray(per_example, np.float64)
        numbers = values[~np.isnan(values)]
        if value is None:
            value = float(numbers.mean()) if len(numbers) else math.nan
        if interval is None:
            interval = interval_of(numbers, seed=seed)
        return cls(value, values, interval, spec.direction, spec.chance, dict(details or {}))

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain numbers and lists for JSON, with None in place of NaN."""
        fields: dict[str, Any] = plain(
            {
                "value": self.value,
                "interval": self.interval,
                "direction": self.direction,
                "chance": self.chance,
                "examples": len(self.per_example),
                "per_example": self.per_example,
                "details": self.details,
            },
            finite=True,
        )
        return fields

    def __repr__(self) -> str:
        low, high = self.interval
        better = (
            "no direction is better"
            if self.direction == "neither"
            else f"{self.direction} is better"
        )
        return (
            f"<Result {self.value:.4g} [{low:.4g}, {high:.4g}] of {len(self.per_example)} examples,"
            f" {better}>"
        )
