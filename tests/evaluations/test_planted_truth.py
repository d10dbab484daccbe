from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mixlens import Lens
from mixlens.errors import InvalidInput
from mixlens.evaluating.planted_cases import Planted
from mixlens.evaluating.planted_models import MARKS, TOKENS, WORDS
from mixlens.evaluations import evaluate, planted_truth
from mixlens.evaluations.planted_truth import cases, judge_target, recording_of
from mixlens.measures import list_measures

PAGE = Path(__file__).resolve().parents[2] / "docs" / "development" / "hand_built_models.md"
BY_NAME = {case.name: case for case in cases()}
each = pytest.mark.parametrize("case", cases(), ids=list(BY_NAME))


def final_state(case: Planted, ids: tuple[int, ...]) -> torch.Tensor:
    with torch.no_grad():
        output = recording_of(case).model(input_ids=torch.tensor([ids]), output_hidden_states=True)
    return output.hidden_states[-1][0, case.target]


@each
def test_the_truth_is_true(case: Planted) -> None:
    """A different word (mark) in the place of a word (mark) changes the target's final state where
    it is a source, and nowhere else.
    """
    before = final_state(case, case.ids)
    for place in range(TOKENS):
        if place == case.target and place not in case.sources:
            continue  # in its own state by the residual stream
        kind = WORDS if case.ids[place] in WORDS else MARKS
        others = [
            (*case.ids[:place], token, *case.ids[place + 1 :])
            for token in kind
            if token != case.ids[place]
        ]
        changes = [float((final_state(case, ids) - before).abs().max()) for ids in others]
        if place in case.sources:
            assert min(changes) > 0.1, (place, changes)
        else:
            assert max(changes) < 1e-12, (place, changes)


@each
def test_ordinary_checks_pass(case: Planted) -> None:
    report = Lens(recording_of(case).model).verify(recording_of(case).inputs)
    assert report.native_error <= report.tolerance
    assert all(error <= 1e-9 for stack in report.stacks for error in stack.errors)


@each
def test_the_classifier_reads_what_was_brought(case: Planted) -> None:
    words = {case.ids[place] for place in case.sources}
    assert {int(recording_of(case).output.logits[0, case.target].argmax())} == words


def test_the_null_space_case_has_more_tokens_than_d_head() -> None:
    assert BY_NAME["null space"].plan.d_head < TOKENS


# What is known of each measure without running it.
@pytest.mark.smoke
@pytest.mark.parametrize(
    ("measure", "case", "right"),
    [
        ("attention", "copy", True),
        ("attention", "empty value", False),
        ("attention", "cancelled heads", False),
        ("attention_norm", "empty value", True),
        ("attention_norm", "cancelled heads", True),
        ("attention_norm", "removed by the norm", False),
        ("attention_norm_res", "residual only", True),
        ("attention_norm_res_ln", "removed by the norm", True),
        ("attention_norm_res_ln", "erased by the MLP", False),
        ("alti", "removed by the norm", True),
        ("alti", "erased by the MLP", False),
        ("globenc", "removed by the norm", True),
        ("effective_attention", "empty value", True),
        ("effective_attention", "null space", True),
        ("effective_attention", "cancelled heads", False),
        ("value_zeroing", "erased by the MLP", True),
        ("value_zeroing", "null space", False),
        ("hidden_token_attribution", "erased by the MLP", True),
        ("hidden_token_attribution", "empty value", False),
        ("blank_out", "redundant sources", False),
        ("blank_out", "relay", True),
        ("attention_norm", "redundant sources", True),
        ("gradient_x_input", "copy, causal", False),
        ("integrated_gradients", "copy, causal", False),
    ],
)
def test_expected_results(measure: str, case: str, right: bool) -> None:
    assert planted_truth.observe(BY_NAME[case], measure)["value"] == float(right)


@pytest.mark.parametrize(
    "measure",
    [
        "attention",
        "attention_norm",
        "alti",
        "value_zeroing",
        "attention_norm_res",
        "effective_attention",
    ],
)
def test_rollout_cannot_tell_which_part_of_a_go_between_goes_on(measure: str) -> None:
    rows = [planted_truth.row_of(BY_NAME[name], measure) for name in ("relay", "not relayed")]
    assert rows[0] == pytest.approx(rows[1], abs=1e-6)


def test_the_effective_attention_of_the_null_space_is_the_small_weight_alone() -> None:
    case = BY_NAME["null space"]
    (source,) = case.sources
    row = planted_truth.row_of(case, "effective_attention")
    assert row[source] == pytest.approx(1, abs=1e-6)
    attention = planted_truth.row_of(case, "attention")
    assert 2 * attention[source] == pytest.approx(
        0.1, abs=1e-6
    )  # the rollout mixes in half of the identity


def test_a_result_counts_the_cases_that_are_right() -> None:
    result = evaluate("planted_truth", "globenc")
    assert len(result.per_example) == len(cases())
    assert np.isnan(result.per_example).sum() == 2  # pre-norm
    assert set(result.details["refused"]) == {"copy, causal", "relay, causal"}
    assert result.value == pytest.approx(np.nanmean(result.per_example))
    assert planted_truth.evaluate("random").value < 0.3
    with pytest.raises(InvalidInput, match="Unknown measure"):
        planted_truth.evaluate("atention")


def test_judging_by_hand() -> None:
    row = np.array([0.1, 0.5, 0.2, 0.9])
    assert judge_target(row, 3, [1]) == (True, pytest.approx(0.5 / 0.8))
    assert judge_target(row, 3, [2]) == (False, pytest.approx(0.2 / 0.8))
    assert judge_target(row, 3, [1, 2])[0]
    assert not judge_target(row, 3, [0, 1])[0]
    assert judge_target(np.array([0.0, -0.5, 0.2, 0.0]), 3, [1])[0]  # sizes
    assert not judge_target(np.array([0.5, 0.5, 0.0, 0.0]), 3, [1])[0]  # a tie
    assert judge_target(row, 3, [3]) == (True, pytest.approx(0.9 / 1.7))
    assert not judge_target(row, 1, [1])[0]
    assert judge_target(np.zeros(4), 3, [3])[0]  # it names no token
    assert math.isnan(judge_target(np.zeros(4), 3, [3])[1])
    assert not judge_target(np.zeros(4), 3, [1])[0]
    assert not judge_target(np.array([0.0, 1e-17, 0.0, 1.0]), 3, [1])[0]  # rounding is nothing
    with pytest.raises(InvalidInput):
        judge_target(row, 3, [1, 3])


@given(st.lists(st.floats(0.01, 1), min_size=3, max_size=8, unique=True), st.data())
def test_the_largest_other_token_is_the_only_right_single_source(
    row: list[float], data: st.DataObject
) -> None:
    target = data.draw(st.integers(0, len(row) - 1))
    others = [place for place in range(len(row)) if place != target]
    right = [place for place in others if judge_target(np.array(row), target, [place])[0]]
    best = max(others, key=lambda place: row[place])
    assert right in ([best], [])  # none if the two largest are closer than the margin
    shares = [judge_target(np.array(row), target, [place])[1] for place in others]
    assert sum(shares) == pytest.approx(1)


def test_the_page_is_current() -> None:
    page = PAGE.read_text("utf-8")
    assert planted_truth.insert_table(page, planted_truth.table()) == page, (
        "run: python -m mixlens.evaluations.planted_truth"
    )


def test_every_measure_that_goes_wrong_has_a_reason() -> None:
    assert all(spec.limitations for spec in list_measures().values())


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no markers"):
        planted_truth.insert_table("# a page", "")
