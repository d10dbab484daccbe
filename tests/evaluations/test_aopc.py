from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mixlens.errors import InvalidInput
from mixlens.evaluating.case import Case
from mixlens.evaluations import aopc
from tests.evaluations.sentences import cases, lens


def probability(case: Case, removed: list[int]) -> float:
    """Of the target against its foil, with tokens masked, by one forward pass of its own."""
    tokenizer = case.lens.tokenizer
    example: Any = case.example
    ids = case.recording.inputs["input_ids"].clone()
    ids[0, removed] = tokenizer.mask_token_id
    with torch.no_grad():
        logits = case.lens.model(input_ids=ids).logits[0, case.target]
    return float(
        torch.softmax(
            logits[[tokenizer.convert_tokens_to_ids(w) for w in (example.target, example.foil)]],
            -1,
        )[0]
    )


def test_each_bin_equals_a_forward_pass() -> None:
    case = cases()[0]
    words = [i for i, label in enumerate(case.row.labels) if not label.startswith("[")]
    order = sorted(words, key=lambda i: -case.target_row("alti")[i])
    assert len(words) == 10
    seen = aopc.observe(case, "alti")
    whole = probability(case, [])
    sizes = [1, 1, 1, 2, 5]
    assert seen["comprehensiveness"] == pytest.approx(
        [whole - probability(case, order[:k]) for k in sizes], abs=1e-6
    )
    assert seen["sufficiency"] == pytest.approx(
        [whole - probability(case, order[k:]) for k in sizes], abs=1e-6
    )
    assert seen["value"] == pytest.approx(np.mean(seen["comprehensiveness"]))


def test_sameks_curve_ends_without_words() -> None:
    case = cases()[1]
    words = [i for i, label in enumerate(case.row.labels) if not label.startswith("[")]
    gone = probability(case, []) - probability(case, words)
    for measure in ("alti", "random"):
        seen = aopc.observe(case, measure, bins=range(1, len(words) + 1), unit="tokens")
        assert len(seen["comprehensiveness"]) == len(words)
        assert seen["comprehensiveness"][-1] == pytest.approx(gone, abs=1e-6)
        assert seen["sufficiency"][-1] == pytest.approx(0, abs=1e-6)


def test_the_target_and_special_tokens_are_never_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    case = cases()[0]
    given: list[np.ndarray] = []

    def watched(recording: Any, removed: np.ndarray, *rest: Any) -> Any:
        given.append(removed)
        return original(recording, removed, *rest)

    original = aopc.outputs
    monkeypatch.setattr(aopc, "outputs", watched)
    aopc.observe(case, "attention", bins=(100,))
    kept = [i for i, label in enumerate(case.row.labels) if label.startswith("[")]
    assert not given[0][:, kept].any()
    assert given[0][1].sum() == len(case.row) - len(kept)


def test_one_batch_for_all_bins(monkeypatch: pytest.MonkeyPatch) -> None:
    case = cases()[0]
    calls: list[Any] = []
    case.target_row("alti")

    def watched(*given: Any) -> Any:
        calls.append(given)
        return original(*given)

    original = getattr(aopc, "model_output")  # noqa: B009 - imported there, not its own
    monkeypatch.setattr(aopc, "model_output", watched)
    aopc.observe(case, "alti")
    assert len(calls) == 1
    assert (
        len(calls[0][1]) == 1 + 3 + 3
    )  # the text, and three different sizes of the five bins, both ways


@pytest.mark.parametrize("model", ["masked", "causal"])
def test_erasure_itself_beats_noise(model: str) -> None:
    best, noise = aopc.evaluate(cases(model), "blank_out"), aopc.evaluate(cases(model), "random")
    assert best.value > noise.value
    assert best.details["comprehensiveness"].shape == best.details["sufficiency"].shape == (5,)
    enough = aopc.evaluate(cases(model), "blank_out", metric="sufficiency")
    assert enough.direction == "lower"
    assert enough.value == pytest.approx(best.details["sufficiency"].mean())


def test_the_replacement_can_be_chosen() -> None:
    case = cases()[0]
    drops = {
        name: aopc.observe(case, "alti", replacement=name)["value"]
        for name in ("mask", "unk", "zero")
    }
    assert len({round(value, 9) for value in drops.values()}) == 3
    assert aopc.observe(case, "alti")["value"] == pytest.approx(drops["mask"])
    without = cases("causal")[0]
    assert aopc.observe(without, "alti")["value"] == pytest.approx(
        aopc.observe(without, "alti", replacement="zero")["value"]
    )


@given(st.integers(1, 400), st.lists(st.floats(0.1, 100), min_size=1, max_size=5))
def test_bins_hold_at_least_one_and_at_most_all(count: int, bins: list[float]) -> None:
    for size, tokens in zip(bins, aopc.bin_sizes(bins, "percent", count), strict=True):
        assert 1 <= tokens <= count
        assert tokens == 1 or tokens <= count * size / 100 + 1e-6


def test_bin_sizes_by_hand() -> None:
    assert aopc.bin_sizes((1, 5, 10, 20, 50), "percent", 40) == [1, 2, 4, 8, 20]
    assert aopc.bin_sizes((1, 3, 9), "tokens", 5) == [1, 3, 5]
    assert aopc.bin_sizes((29,), "percent", 100) == [
        29
    ]  # 100 * 29 / 100 is a little less in floats


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=12), st.integers(0, 5))
def test_the_order_is_by_score_and_holds_every_removable_place(
    scores: list[int], seed: int
) -> None:
    removable = np.arange(len(scores)) % 3 != 1
    order = aopc.removal_order(np.array(scores, float), removable, seed)
    assert sorted(order) == list(np.flatnonzero(removable))
    assert all(np.diff(np.array(scores)[order]) <= 0)


def test_equal_scores_go_in_a_random_order() -> None:
    drawn = {tuple(aopc.removal_order(np.zeros(5), np.ones(5, bool), seed)) for seed in range(20)}
    assert len(drawn) > 10


def test_a_text_without_a_word_has_no_number() -> None:
    from mixlens.datasets.examples import Agreement

    case = Case(lens(), Agreement(name="x", text="are", place=(0, 3), foil="is"))
    seen = aopc.observe(case, "attention")
    assert math.isnan(seen["value"])
    result = aopc.conclude([seen, aopc.observe(cases()[0], "attention")])
    assert not math.isnan(result.value)
    assert not np.isnan(result.details["comprehensiveness"]).any()


def test_misuse_is_named() -> None:
    for options in (
        {"metric": "recall"},
        {"unit": "words"},
        {"bins": ()},
        {"bins": (0,)},
        {"bins": (101,)},
        {"bins": (1.5,), "unit": "tokens"},
    ):
        with pytest.raises(InvalidInput):
            aopc.observe(cases()[0], "attention", **options)
