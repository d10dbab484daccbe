"""Maps as text: shades, labels and numbers, as they reach a terminal or a pipe."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from mixlens.views import terminal


def printed(*tables: Any, width: int = 100) -> list[str]:
    """The lines of tables, without colour, as a pipe gets them."""
    out = io.StringIO()
    terminal.show(Console(file=out, width=width, highlight=False), tables)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_shades_follow_sizes_and_signs() -> None:
    shades = [terminal.shade(value, 1.0).plain for value in (0, 0.3, 0.5, 0.8, 1, 2)]
    assert shades == ["  ", "░░", "▒▒", "▓▓", "██", "██"]
    assert terminal.shade(-1, 1).plain == "-█"
    assert terminal.shade(-0.01, 1).plain == "  ", "what is too small to see has no sign"
    assert terminal.shade(float("nan"), 1).plain == terminal.shade(1, 0).plain == "  "


def test_each_row_is_shaded_by_its_own_largest_score() -> None:
    scores = np.array([[1.0, 0.5], [0.001, 0.0]])
    tables = terminal.matrix(scores, ["[MASK]", "a"], ["[MASK]", "a"], 100)
    head, first, second = printed(*tables)
    assert head.split() == ["0", "1"]
    assert first.split() == ["[MASK]", "██", "▒▒"]
    assert second.split() == ["a", "██"]


def test_one_target_by_layer_has_the_numbers_of_its_reading() -> None:
    scores = np.array([[0.0, 1.0], [0.25, 0.125]])
    read = np.array([0.25, 0.5])
    tables = terminal.by_layer(scores, [0, 5], ["[CLS]", "dogs"], read, "mean", 100)
    head, first, second = printed(*tables)
    assert head.split() == ["source", "mean", "0", "5"]
    assert first.split() == ["0", "[CLS]", "0.250", "██"]
    assert second.split() == ["1", "dogs", "0.500", "██", "▒▒"]


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("layers", [1, 6, 30, 120])
def test_every_layer_is_printed_at_any_width(layers: int, width: int) -> None:
    scores = np.random.default_rng(0).random((layers, 3)) + 0.1
    labels = ["a", "a word of many many characters", "b"]
    tables = terminal.by_layer(
        scores, range(layers), labels, scores.mean(0), "mean", max(width, 45)
    )
    lines = printed(*tables, width=max(width, 45))
    heads = [line.split() for line in lines if "source" in line]
    assert [part for head in heads for part in head if part.isdigit()] == [
        str(layer) for layer in range(layers)
    ]
    assert sum("mean" in head for head in heads) == 1, "the answer is printed once"
    shaded = [line for line in lines if line.strip().startswith(("0 a", "2 b"))]
    assert not any("…" in line for line in shaded)


@pytest.mark.parametrize("columns", [3, 24, 40])
def test_every_source_of_a_matrix_is_printed_in_80_columns(columns: int) -> None:
    scores = np.eye(columns)
    labels = [f"token{number} {number:>2}" for number in range(columns)]
    lines = printed(*terminal.matrix(scores, labels, labels, 80), width=80)
    assert not any("…" in line for line in lines)
    assert sum(line.count("██") for line in lines) == columns
    sums = printed(*terminal.numbers(scores, labels, labels, 80), width=80)
    assert sum(line.count("1.000") for line in sums) == columns
    assert not any("…" in line for line in sums)


def test_blocks_are_even_and_complete() -> None:
    assert terminal.blocks(30, 18) == [range(0, 15), range(15, 30)]
    assert terminal.blocks(6, 18) == [range(0, 6)]
    assert terminal.blocks(3, 0) == [range(0, 1), range(1, 2), range(2, 3)], "never none at all"


def test_ranked_sources_have_bars_by_size() -> None:
    first, second = printed(terminal.build_ranking([("[CLS]", 0, -0.5), ("dogs", 2, 0.25)]))
    assert first.split() == ["1.", "[CLS]", "0", "-0.500", "█" * 24]
    assert second.split() == ["2.", "dogs", "2", "0.250", "█" * 12]
    assert printed(terminal.build_ranking([("a", 0, 0.0)])) == ["1. a 0 0"]


def test_numbers_keep_their_digits() -> None:
    shown = [terminal.number(value) for value in (0.0, 0.1234, -2, 1e-5, 12345.6, float("inf"))]
    assert shown == ["0", "0.123", "-2.000", "1.0e-05", "1.2e+04", "inf"]
    scores = np.array([[0.5, 1e-9]])
    (head, row) = printed(*terminal.numbers(scores, ["[a]"], ["turn 1", "[b]"], 100))
    assert head.split() == ["turn", "1", "[b]"]
    assert row.split() == ["[a]", "0.500", "1.0e-09"]
