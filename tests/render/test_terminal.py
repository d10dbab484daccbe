"""Maps as text: shades, labels and numbers, as they reach a terminal or a pipe."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from rich.console import Console

from mixlens.render import terminal


def printed(table: Any) -> list[str]:
    """The lines of a table, without colour, as a pipe gets them."""
    out = io.StringIO()
    Console(file=out, width=100, highlight=False).print(table)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_shades_follow_sizes_and_signs() -> None:
    shades = [terminal.shade(value, 1.0).plain for value in (0, 0.3, 0.5, 0.8, 1, 2)]
    assert shades == ["  ", "░░", "▒▒", "▓▓", "██", "██"]
    assert terminal.shade(-1, 1).plain == "-█"
    assert terminal.shade(-0.01, 1).plain == "  ", "what is too small to see has no sign"
    assert terminal.shade(float("nan"), 1).plain == terminal.shade(1, 0).plain == "  "


def test_each_row_is_shaded_by_its_own_largest_score() -> None:
    scores = np.array([[1.0, 0.5], [0.001, 0.0]])
    head, first, second = printed(terminal.matrix(scores, ["[MASK]", "a"], ["[MASK]", "a"]))
    assert head.split() == ["0", "1"]
    assert first.split() == ["[MASK]", "██", "▒▒"]
    assert second.split() == ["a", "██"]


def test_one_target_by_layer_ends_with_the_numbers_of_the_last() -> None:
    scores = np.array([[0.0, 1.0], [0.25, 0.125]])
    head, first, second = printed(terminal.by_layer(scores, [0, 5], ["[CLS]", "dogs"]))
    assert head.split() == ["source", "0", "5", "layer", "5"]
    assert first.split() == ["0", "[CLS]", "██", "0.250"]
    assert second.split() == ["1", "dogs", "██", "▒▒", "0.125"]


def test_ranked_sources_have_bars_by_size() -> None:
    first, second = printed(terminal.ranked([("[CLS]", 0, -0.5), ("dogs", 2, 0.25)]))
    assert first.split() == ["1.", "[CLS]", "0", "-0.500", "█" * 24]
    assert second.split() == ["2.", "dogs", "2", "0.250", "█" * 12]
    assert printed(terminal.ranked([("a", 0, 0.0)])) == ["1. a 0 0"]


def test_numbers_keep_their_digits() -> None:
    shown = [terminal.number(value) for value in (0.0, 0.1234, -2, 1e-5, 12345.6, float("inf"))]
    assert shown == ["0", "0.123", "-2.000", "1.0e-05", "1.2e+04", "inf"]
    (head, row) = printed(terminal.numbers(np.array([[0.5, 1e-9]]), ["[a]"], ["turn 1", "[b]"]))
    assert head.split() == ["turn", "1", "[b]"]
    assert row.split() == ["[a]", "0.500", "1.0e-09"]
