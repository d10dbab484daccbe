"""What an evaluation says of itself and what it gives back."""

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
    """A number of a result in words."""

    words: str
    # "": a number. "layer": one for each layer. "state": the input of the first layer, then each.
    axis: str = ""


@dataclass(frozen=True, kw_only=True)
class EvaluationSpec:
    """An evaluation's description."""

    summary: str
    citation: str
    direction: str  # "higher" is better, "lower" is better, or "neither": it describes
    kinds: tuple[str, ...]  # of examples that it takes (`Example.kind`); none: it brings its own
    of: str = "measure"  # what is judged: a "measure", or the "model"
    chance: float | None = None  # what a measure that knows nothing gets, if that is known
    cost: str = "the measure itself"
    same_method: tuple[str, ...] = ()  # measures that work as it does: it would judge itself
    by_default: bool = True  # does a benchmark run it unasked?
    by_layer: bool = False  # do `Result.details["layers"]` hold its value for each layer?
    judges_data: bool = False  # of a model: at chance, no measure can be judged on these data
    # Of a model: the evaluation of measures with whose observations it judges measures too, by the
    # function `conclude_through(result, observations)`, and what that asks.
    through: str | None = None
    through_summary: str = ""

    # Of a model: which of `Result.details` a report shows, and what they are. A part of a mapping
    # is named as "mapping.part".
    reports: Mapping[str, Detail] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.direction not in DIRECTIONS:
            raise ValueError(f"direction {self.direction!r}: choose one of {', '.join(DIRECTIONS)}")


class Evaluation(Protocol):
    """What a file in `mixlens.evaluations` is, and what a plug-in must be.

    It may also have `conclude`, `evaluate` and `cases`.
    """

    @property
    def SPEC(self) -> EvaluationSpec:
        """What it is."""

    def observe(self, case: Any, /, *args: Any, **options: Any) -> Any:
        """What one text says."""


@dataclass(frozen=True, eq=False)
class Result:
    """A number with its examples behind it."""

    value: float
    per_example: np.ndarray  # one number for each example; NaN if it has none
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
        """The mean over the examples that have a number, with its bootstrap interval, unless a
        value and an interval are given.
        """
        values = np.asarray(per_example, np.float64)
        known = values[~np.isnan(values)]
        if value is None:
            value = float(known.mean()) if len(known) else math.nan
        if interval is None:
            interval = interval_of(known, seed=seed)
        return cls(value, values, interval, spec.direction, spec.chance, dict(details or {}))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for JSON; NaN becomes None."""
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
