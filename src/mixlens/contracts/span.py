"""Score several targets as one, such as an answer, a sentence or a reasoning span.

There are three definitions. "sum" adds the vectors of the targets before measuring, so that
components shared by the targets count more. "joint" stacks the vectors of the targets into one long
vector before measuring, so that nothing cancels between targets. "mean" measures every target and
takes the weighted mean of the scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.errors import InvalidInput, no_such

if TYPE_CHECKING:
    from torch import Tensor

    from mixlens.contracts.scores import LayerScores
    from mixlens.kernels.decomposition import Decomposition

DEFINITIONS = ("sum", "joint", "mean")
_FEW = 16  # number of targets up to which every measure of them is cheap
_LARGEST = 1e9  # weight whose square times a squared norm is far inside the range of float32


@dataclass(frozen=True)
class Span:
    """How the targets of a request are combined into one."""

    definition: str | None  # None: the default for the measure and the number of targets
    weights: tuple[tuple[float, ...], ...]  # of each target of each text, as passed
    sampled_from: tuple[tuple[int, ...], ...] | None = None  # all targets, if some are drawn
    population: tuple[int, ...] | None = None  # how many of them have a positive weight

    @classmethod
    def of(cls, definition: Any, weights: Any, targets: Sequence[Sequence[int]]) -> Span:
        """Return the span of these targets, or raise `InvalidInput` if an argument is invalid."""
        if definition is not True and definition not in DEFINITIONS:
            raise InvalidInput(no_such("span", str(definition), DEFINITIONS))
        for of_text in targets:
            repeats = [place for place in set(of_text) if of_text.count(place) > 1]
            if repeats:
                raise InvalidInput(
                    f"Target {repeats[0]} is in the span twice. Name it once, and pass weights= to"
                    " count it more."
                )
        by_text = (
            [[1.0] * len(of_text) for of_text in targets]
            if weights is None
            else _rows(weights, targets)
        )
        return cls(None if definition is True else definition, tuple(map(tuple, by_text)))

    def sample(
        self, targets: Sequence[Sequence[int]], count: Any, seed: Any
    ) -> tuple[Span, tuple[tuple[int, ...], ...]]:
        """Draw `count` targets without replacement, and return their span and their positions.

        The targets stay in order. Each text is sampled separately, and targets of weight 0 are
        drawn last.
        """
        for name, number, least in (("sample", count, 2), ("seed", seed, 0)):
            is_whole = isinstance(number, (int, np.integer)) and not isinstance(number, bool)
            if not is_whole or number < least:
                raise InvalidInput(
                    f"{name}={number!r} is out of range. Pass a whole number of at least {least}."
                )
        draws = []
        for text_weights in self.weights:
            order = np.random.default_rng(seed).permutation(len(text_weights)).tolist()
            draws.append(sorted(sorted(order, key=lambda place: text_weights[place] == 0)[:count]))
        pairs = list(zip(draws, self.weights, targets, strict=True))
        span = Span(
            self.definition,
            tuple(
                tuple(text_weights[place] for place in places) for places, text_weights, _ in pairs
            ),
            sampled_from=tuple(map(tuple, targets)),
            population=tuple(
                sum(weight > 0 for weight in text_weights) for text_weights in self.weights
            ),
        )
        return span, tuple(
            tuple(text_targets[place] for place in places) for places, _, text_targets in pairs
        )

    def choose_definition(self, rule: SpanRule | None) -> str:
        """Return the requested definition, or the default definition for a measure."""
        if self.definition is not None:
            return self.definition
        few = max(map(len, self.weights)) <= _FEW
        return "mean" if few or rule is None else rule.long


def _rows(weights: Any, targets: Sequence[Sequence[int]]) -> list[list[float]]:
    """Return the weights of each text. You can pass one list for all texts or one list per text."""
    try:
        if isinstance(weights, (Mapping, set, frozenset)):
            raise TypeError
        entries = [entry.tolist() if hasattr(entry, "tolist") else entry for entry in weights]
        nested = all(isinstance(entry, (list, tuple)) for entry in entries) and bool(entries)
        by_text = [
            [float(entry) for entry in of_text] for of_text in (entries if nested else [entries])
        ]
    except (TypeError, ValueError):
        raise InvalidInput(
            f"weights={weights!r} is not a list of numbers. Pass one weight for each target."
        ) from None
    by_text = by_text if nested else by_text * len(targets)
    if len(by_text) != len(targets):
        raise InvalidInput(
            f"Got {len(by_text)} lists of weights for {len(targets)} texts. Pass one for each text."
        )
    for of_text, places in zip(by_text, targets, strict=True):
        if len(of_text) != len(places):
            raise InvalidInput(
                f"Got {len(of_text)} weights for {len(places)} targets. Pass one for each target."
            )
        wrong = [weight for weight in of_text if not math.isfinite(weight) or weight < 0]
        if wrong:
            raise InvalidInput(f"The weight {wrong[0]} of a span is not a number of at least 0.")
        if not any(of_text):
            raise InvalidInput("All weights of the span are 0. Pass a positive weight.")
        if not 1 / _LARGEST <= max(of_text) <= _LARGEST:
            raise InvalidInput(
                f"The largest weight of the span is {max(of_text):.3g}, so scores would lose"
                f" precision. Scale the weights to between {1 / _LARGEST:.0e} and {_LARGEST:.0e}."
            )
    return by_text


@dataclass(frozen=True, kw_only=True)
class SpanRule:
    """How a measure scores a span. Modules of measures define their rule as `SPAN`.

    A measure that decomposes vectors has three steps. `split(layer, attention, targets, **options)`
    returns the vectors of every source as a `Decomposition`. `weigh(parts, budget, **options)`
    returns quantities [batch, target, ...] that can be added over stacked targets. `score(weighed,
    **options)` returns scores. "sum" adds the vectors of the targets before `weigh`, "joint" adds
    the quantities that `weigh` returns, and "mean" averages the scores.

    For a measure without vectors, "joint" has two steps. `square(layer, attention, targets,
    **options)` returns squared quantities for every target as `LayerScores`, which mixlens sums
    over the targets with squared weights. `unite(squares, **options)` converts the sums to scores.
    """

    split: Callable[..., Decomposition] | None = None
    weigh: Callable[..., Mapping[str, Tensor]] | None = None
    score: Callable[..., LayerScores] | None = None
    square: Callable[..., LayerScores] | None = None
    unite: Callable[..., LayerScores] | None = None
    adds_up: bool = False  # without vectors: whether "sum" is the weighted sum of the scores
    samples: bool = False  # whether the options `sample` and `seed` draw targets of a mean
    long: str = "mean"  # the default definition for long spans
    refused: Mapping[str, str] = field(default_factory=dict)  # why there is no such definition


def require_definition(name: str, rule: SpanRule | None, definition: str) -> None:
    """Raise `InvalidInput` if a measure does not support this definition of a span."""
    if definition == "mean":
        return
    if rule is not None and rule.split is not None:
        return
    if rule is not None and rule.square is not None and definition == "joint":
        return
    if rule is not None and definition in rule.refused:
        reason = rule.refused[definition]
    elif rule is not None and rule.adds_up and definition == "sum":
        return
    else:
        reason = (
            "its scores are not computed from vectors of the targets that could be added or stacked"
        )
    raise InvalidInput(f"{name} does not support span={definition!r}: {reason}. Use span='mean'.")
