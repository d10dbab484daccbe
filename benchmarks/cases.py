"""Calls of every measure for the growth and memory benchmarks, with the number of multiplications
in theory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

PROBES = 2
STEPS = 10


@dataclass(frozen=True)
class Shape:
    """Sizes of a BERT and of its input."""

    tokens: int
    layers: int
    batch: int
    width: int
    heads: int
    inner: int  # width of the feed-forward part

    @property
    def forward(self) -> float:
        """Multiplications of one plain pass: projections, feed-forward part, and two products with
        the attention matrix.
        """
        n, d = self.tokens, self.width
        return self.layers * self.batch * (n * (4 * d**2 + 2 * d * self.inner) + 2 * n**2 * d)

    def beyond(self, per_layer: float) -> float:
        """A pass and something more in every layer."""
        return self.forward + self.layers * self.batch * per_layer


Operations = Callable[[Shape], float]


@dataclass(frozen=True)
class Case:
    """One way of asking for a measure."""

    label: str
    measure: str
    operations: Operations
    power: str  # of n, when n is large
    options: Mapping[str, Any] = field(default_factory=dict)
    long: bool = False  # takes hours for long texts, in chunks of equal size
    drawn: bool = False  # in the plot: the others follow one of these


def _norm(s: Shape) -> float:
    return s.beyond(s.tokens * (s.width**2 + s.heads**2 * s.width) + s.tokens**2 * s.heads**2)


def _effective(s: Shape) -> float:
    head = s.width // s.heads
    return s.beyond(s.tokens * s.heads * head**2 + 2 * s.tokens**2 * s.width)


def _alti(s: Shape) -> float:
    return s.beyond(s.tokens * s.width**2 + s.tokens**2 * s.heads * s.width)


def _zeroing(s: Shape) -> float:
    return s.beyond(s.tokens**2 * (s.heads * (s.width + s.inner) + s.width * s.inner))


def _zeroing_one(s: Shape) -> float:
    return s.beyond(s.tokens * (s.heads * s.width + 2 * s.width * s.inner))


def _passes(count: Callable[[Shape], float]) -> Operations:
    return lambda shape: count(shape) * shape.forward


CASES = [
    Case("attention", "attention", _passes(lambda s: 1), "2", drawn=True),
    Case("attention_norm", "attention_norm", _norm, "2", drawn=True),
    Case("attention_norm_res", "attention_norm_res", _norm, "2"),
    Case("attention_norm_res_ln", "attention_norm_res_ln", _norm, "2"),
    Case("globenc", "globenc", _norm, "2"),
    Case("effective_attention", "effective_attention", _effective, "2", drawn=True),
    Case("alti", "alti", _alti, "2", drawn=True),
    Case(
        "value_zeroing, one target",
        "value_zeroing",
        _zeroing_one,
        "2",
        {"targets": [0]},
        drawn=True,
    ),
    Case("value_zeroing, all targets", "value_zeroing", _zeroing, "2", long=True, drawn=True),
    Case(
        f"hidden_token_attribution, {PROBES} probes",
        "hidden_token_attribution",
        _passes(lambda s: 1 + s.tokens * PROBES),
        "3",
        {"probes": PROBES},
        long=True,
        drawn=True,
    ),
    Case("gradient_norm", "gradient_norm", _passes(lambda s: 3), "2"),
    Case("gradient_x_input", "gradient_x_input", _passes(lambda s: 3), "2", drawn=True),
    Case(
        f"integrated_gradients, {STEPS} steps",
        "integrated_gradients",
        _passes(lambda s: 1 + 2 * STEPS),
        "2",
        {"steps": STEPS},
    ),
    Case("deep_lift", "deep_lift", _passes(lambda s: 5), "2"),
    Case(
        "blank_out",
        "blank_out",
        _passes(lambda s: 1 + s.tokens),
        "3",
        {"replacement": "zero"},
        long=True,
        drawn=True,
    ),
]
