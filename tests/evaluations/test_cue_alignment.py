from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from mixlens.errors import InvalidInput
from mixlens.evaluations import cue_alignment
from mixlens.evaluations.cue_alignment import alignment
from tests.evaluations.sentences import cases

ROW = np.array([0.1, 0.4, 0.2, 0.3])


def test_dot_is_the_share_on_the_cues() -> None:
    assert alignment(ROW, [1, 2]) == pytest.approx(0.6)
    assert alignment(np.array([2.0, -6.0]), [1]) == pytest.approx(0.75)
    assert alignment(np.zeros(3), [1]) == 0.0


def test_probes_needed_counts_what_stands_before_the_last_cue() -> None:
    assert alignment(ROW, [1], "probes_needed") == 0
    assert alignment(ROW, [1, 2], "probes_needed") == 1  # .3 comes before .2
    assert alignment(ROW, [0], "probes_needed") == 3
    assert alignment(np.ones(4), [0], "probes_needed") == 3  # ties count as before


@given(st.lists(st.integers(-4, 4), min_size=2, max_size=10), st.data())
def test_average_precision_is_scikit_learns(row: list[int], data: st.DataObject) -> None:
    cues = data.draw(st.sets(st.integers(0, len(row) - 1), min_size=1))
    right = np.isin(np.arange(len(row)), list(cues))
    precision = alignment(np.array(row, float), list(cues), "average_precision")
    assert precision == pytest.approx(average_precision_score(right, np.abs(row)))


def test_average_precision_by_hand() -> None:
    assert alignment(ROW, [1, 2], "average_precision") == pytest.approx((1 / 1 + 2 / 3) / 2)


@pytest.mark.parametrize("metric", cue_alignment.METRICS)
def test_a_row_that_is_not_finite_has_no_number(metric: str) -> None:
    assert math.isnan(alignment(np.array([1.0, np.nan]), [0], metric))


def test_misuse_is_named() -> None:
    with pytest.raises(InvalidInput, match="metric"):
        alignment(ROW, [1], "cosine")
    with pytest.raises(InvalidInput, match="no cue"):
        alignment(ROW, [])
    with pytest.raises(InvalidInput, match="cue_tokens"):
        cue_alignment.observe(cases()[0], "attention", cue_tokens="last")


@pytest.mark.smoke
@pytest.mark.parametrize("model", ["masked", "causal"])
def test_a_bundled_models_number_is_that_of_its_rows(model: str) -> None:
    result = cue_alignment.evaluate(cases(model), "attention_norm")
    rows = [case.target_row("attention_norm") for case in cases(model)]
    shares = [
        sum(abs(row[i]) for span in case.cues for i in span)
        for case, row in zip(cases(model), rows, strict=True)
    ]
    assert result.per_example == pytest.approx(shares)
    assert result.value == pytest.approx(np.mean(shares))
    assert result.details["layers"].shape == (6,)
    assert result.direction == "higher"


def test_erasure_finds_the_cue_and_noise_does_not() -> None:
    assert (
        cue_alignment.evaluate(cases(), "blank_out").value
        > 2 * cue_alignment.evaluate(cases(), "random").value
    )
    fewer = cue_alignment.evaluate(cases(), "blank_out", metric="probes_needed")
    assert fewer.direction == "lower"
    assert fewer.value < cue_alignment.evaluate(cases(), "random", metric="probes_needed").value


def test_first_tokens_of_cues() -> None:
    case = cases("causal")[0]  # two tokens: "ke" and "ys"
    assert len(case.cues[0]) == 2
    row = case.target_row("alti")
    assert cue_alignment.observe(case, "alti", cue_tokens="first")["value"] == pytest.approx(
        row[case.cues[0][0]]
    )
    assert cue_alignment.observe(case, "alti")["value"] == pytest.approx(
        row[list(case.cues[0])].sum()
    )
