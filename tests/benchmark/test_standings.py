"""Ranks, marks and verdicts on made-up observations whose truth is known."""

from __future__ import annotations

import io
import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from mixlens.benchmark.findings import Findings, RowError
from mixlens.benchmark.marks import marks_of
from mixlens.benchmark.plan import Plan
from mixlens.benchmark.ranking import Ranking, rank
from mixlens.benchmark.report.terminal import show
from mixlens.benchmark.report.wording import headline
from mixlens.benchmark.standings import Column, ranks_of, standings
from mixlens.evaluations import EvaluationSpec, Result
from mixlens.evaluations.accuracy import conclude as accuracy_of

TEXTS = 60


def column(
    name: str,
    values: dict[str, np.ndarray],
    direction: str = "higher",
    itself: frozenset[str] = frozenset(),
) -> Column:
    spec = EvaluationSpec(
        summary="made up", citation="nobody", direction=direction, kinds=("text",)
    )
    return Column(
        evaluation=name,
        direction=direction,
        results={m: Result.of(spec, v) for m, v in values.items()},
        values=values,
        itself=itself,
    )


def findings(*columns: Column, of_model: dict[str, Result] | None = None) -> Findings:
    return Findings(columns=columns, of_model=of_model or {}, seconds={}, errors=(), left_out={})


def made_up(seed: int = 0, sign: float = 1.0) -> dict[str, np.ndarray]:
    """`good` is better by construction, `twin` is the same measure again, `near` is as good but for
    noise, `poor` is noise.
    """
    draw = np.random.default_rng(seed)
    shared = draw.normal(0, 0.3, TEXTS)
    good = shared + 1 + draw.normal(0, 0.1, TEXTS)
    values = {
        "good": good,
        "twin": good * (1 + 1e-9),
        "near": good + draw.normal(-0.001, 0.2, TEXTS),
        "middling": shared + 0.5,
        "poor": shared + draw.normal(0, 0.3, TEXTS),
        "random": shared + draw.normal(0, 0.3, TEXTS),
    }
    return {name: sign * value for name, value in values.items()}


def ranked(*columns: Column) -> Ranking:
    measures = tuple(dict.fromkeys(m for c in columns for m in c.results))
    return rank(findings(*columns), Plan(measures=measures), TEXTS, {"model": "m", "data": "d"})


def test_ranks_by_hand() -> None:
    scores = np.array([[0.3, 0.9, math.nan, 0.3 + 1e-9, 0.1], [5.0, 4.0, 3.0, 2.0, 1.0]])
    expected = np.array([[2.5, 1.0, math.nan, 2.5, 4.0], [1.0, 2.0, 3.0, 4.0, 5.0]])
    np.testing.assert_array_equal(ranks_of(scores), expected)


@pytest.mark.parametrize(("direction", "sign"), [("higher", 1.0), ("lower", -1.0)])
def test_the_better_measure_is_first_and_its_lead_is_real(direction: str, sign: float) -> None:
    ranking = ranked(*(column(f"e{seed}", made_up(seed, sign), direction) for seed in range(3)))
    assert set(ranking.order[:2]) | {"near"} >= {"good", "twin"}
    assert ranking.order[3] == "middling"
    first = ranking.standings[ranking.order[0]]
    assert first.interval[0] <= first.mean_rank <= first.interval[1]
    assert ranking.standings["middling"].p_first < 0.05
    assert ranking.standings["poor"].p_first < 0.05
    close = {m for m in ("good", "twin", "near") if m != ranking.order[0]}
    assert all(ranking.standings[m].p_first >= 0.05 for m in close)
    assert ranking.verdict.startswith(f"Trust {ranking.order[0]} first")
    assert "Not different from it by mean rank" in ranking.verdict
    assert "Better than random numbers in no evaluation: poor." in ranking.verdict


def test_marks_tell_the_better_the_same_and_the_useless() -> None:
    marks = marks_of(column("e", made_up()), list(made_up()), baseline="random")
    best = next(m for m, mark in marks.items() if mark.is_best)
    assert best in ("good", "twin", "near")
    assert marks["twin" if best != "twin" else "good"].not_different_from_best
    assert not marks["middling"].not_different_from_best
    assert not marks["middling"].not_better_than_random
    assert marks["poor"].not_better_than_random
    assert not marks["random"].not_better_than_random  # there is nothing to compare it with
    worse = {**made_up(), "poor": made_up()["random"] - 5}
    assert marks_of(column("e", worse), list(worse), baseline="random")[
        "poor"
    ].not_better_than_random


def test_rounding_is_no_difference() -> None:
    values = made_up()
    twins = {"good": values["good"], "twin": values["good"] + 1e-9, "random": values["random"]}
    by_measure = standings([column("e", twins)], list(twins), baseline="random")
    assert by_measure["good"].mean_rank == by_measure["twin"].mean_rank == 1.5
    assert marks_of(column("e", twins), list(twins), baseline="random")["good"].p_best == 1.0


def test_who_judges_itself_takes_no_part() -> None:
    values = made_up()
    judged = column("e", {**values, "own": values["good"] + 10}, itself=frozenset({"own"}))
    ranking = ranked(judged, column("other", {**values, "own": values["poor"] - 9}))
    assert ranking.standings["own"].ranks == {"other": 7.0}
    assert ranking.standings["good"].ranks["e"] < 4
    assert not ranking.marks["e"]["own"].is_best
    assert ranking.marks["e"]["own"].judges_itself
    assert "e judges own" in ranking.verdict
    chance = column("e", values, itself=frozenset({"random"}))
    marks = marks_of(chance, list(values), baseline="random")
    assert not any(mark.not_better_than_random for mark in marks.values())


def test_a_measure_that_is_hardly_judged_is_put_last() -> None:
    full = [
        column(f"e{seed}", {m: v for m, v in made_up(seed).items() if m != "near"})
        for seed in range(2)
    ]
    ranking = ranked(*full, column("e3", {**made_up(3), "near": made_up(3)["good"] + 3}))
    assert ranking.standings["near"].mean_rank == 1.0
    assert ranking.order[-1] == "near"
    assert (
        "Evaluated by fewer than half of the evaluations, and therefore last: near."
        in ranking.verdict
    )


def test_descriptions_are_not_ranked() -> None:
    ranking = ranked(column("e", made_up(), "neither"))
    assert all(math.isnan(standing.mean_rank) for standing in ranking.standings.values())
    assert "nothing to rank" in ranking.verdict


def test_missing_examples_are_compared_on_those_that_both_have() -> None:
    values = made_up()
    values["middling"] = values["middling"].copy()
    values["middling"][::3] = math.nan
    marks = marks_of(column("e", values), list(values), baseline="random")
    assert not marks["middling"].not_different_from_best
    values["middling"][2:] = math.nan
    assert math.isnan(
        marks_of(column("e", values), list(values), baseline="random")["middling"].p_best
    )


def test_the_verdict_warns_of_few_texts() -> None:
    values = {m: v[:6] for m, v in made_up().items()}
    measures = tuple(values)
    ranking = rank(
        findings(column("e", values)),
        Plan(measures=measures),
        6,
        {"model": "m", "data": "d"},
    )
    assert ranking.verdict.startswith("Too few texts")
    assert not any(mark.p_best < 0.05 for mark in ranking.marks["e"].values())


def test_when_nothing_beats_random_nothing_is_recommended() -> None:
    draw = np.random.default_rng(1)
    ranking = ranked(column("e", {m: draw.normal(0, 1, TEXTS) for m in ("a", "b", "random")}))
    assert ranking.verdict.startswith("No measure can be recommended")
    assert not any(mark.is_best for mark in ranking.marks["e"].values())


def test_a_single_measure_is_first_without_comparisons() -> None:
    ranking = ranked(column("e", {"good": made_up()["good"]}))
    assert ranking.verdict.startswith("Trust good first: mean rank 1.0")
    assert "random" not in ranking.verdict
    assert "chance" not in ranking.verdict


def test_a_model_at_chance_gives_no_recommendation() -> None:
    values, draw = made_up(), np.random.default_rng(2)
    for right, recommended in ((0.5, False), (0.9, True)):
        accuracy = accuracy_of(
            [{"value": float(x < right), "label": None} for x in draw.random(60)]
        )
        ranking = rank(
            findings(column("e", values), of_model={"accuracy": accuracy}),
            Plan(measures=tuple(values)),
            TEXTS,
            {"model": "m", "data": "d"},
        )
        assert ranking.verdict.startswith("Trust") == recommended
        assert ("near chance" in ranking.verdict) != recommended


def own_column(values: dict[str, np.ndarray]) -> Column:
    """An evaluation with cases its own models, which uses neither the data nor the model."""
    return replace(column("own", values), by_text=False)


def with_errors(*columns: Column, texts: int = TEXTS, **reasons: str) -> Ranking:
    errors = tuple(
        RowError(f"line {n}", m, "e", reason) for m, reason in reasons.items() for n in range(texts)
    )
    measures = tuple(dict.fromkeys(m for c in columns for m in c.results))
    observed = replace(findings(*columns), errors=errors)
    return rank(observed, Plan(measures=measures), texts, {"model": "m", "data": "d"})


def test_a_measure_that_cannot_be_measured_on_the_data_is_not_ranked() -> None:
    draw = np.random.default_rng(0)
    cases = {name: draw.normal(size=12) for name in ("good", "poor", "unfit", "random")}
    cases["unfit"] += 5
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # "All-NaN slice encountered"
        ranking = with_errors(column("e", made_up()), own_column(cases), unfit="no such layers")
    assert "unfit" not in ranking.order
    assert ranking.not_judged == {"unfit": "no such layers"}
    assert "unfit" not in ranking.verdict
    console = Console(file=io.StringIO(), width=100)
    show(ranking, console)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "not judged: unfit: no such layers" in printed
    assert "error" not in printed
    alone = with_errors(column("e", {"random": made_up()["random"]}), own_column(cases), unfit="x")
    assert set(alone.not_judged) == {"unfit"}


def test_ranks_that_do_not_come_from_the_data_are_no_recommendation() -> None:
    draw = np.random.default_rng(0)
    cases = {"good": draw.normal(5, 1, 12), "random": draw.normal(size=12)}
    texts = {name: draw.normal(size=TEXTS) for name in cases}
    ranking = with_errors(column("describes", texts, "neither"), own_column(cases))
    assert ranking.verdict.startswith("No measure can be recommended: no evaluation of these texts")
    assert "its own models" in ranking.verdict


def test_measures_no_better_than_random_are_not_recommended() -> None:
    draw = np.random.default_rng(0)
    noise = [column(f"e{i}", {m: draw.normal(size=TEXTS) for m in "ab"}) for i in range(3)]
    better = {"a": draw.normal(2, 0.1, TEXTS), "b": draw.normal(0, 1, TEXTS)}
    floor = [{"random": draw.normal(0.3, 1, TEXTS)} for _ in range(4)]
    columns = [
        column(c.evaluation, {**c.values, **f}) for c, f in zip(noise, floor[:3], strict=True)
    ]
    ranking = ranked(*columns, column("real", {**better, **floor[3]}))
    standing, first = ranking.standings["random"], ranking.order[0]
    assert standing.p_first >= 0.05 or first == "random"
    assert ranking.verdict.startswith("No measure can be recommended")
    assert "Trust" not in ranking.verdict.splitlines()[0].split()[0]


def test_a_value_behind_random_numbers_is_never_the_best_of_its_column() -> None:
    """Also if nothing could be tested, as in an evaluation without numbers for single texts."""
    known = column("e", {"a": np.array([0.1]), "b": np.array([0.2]), "random": np.array([0.3])})
    untested = replace(known, values={}, by_text=False)
    for judged in (known, untested):
        marks = marks_of(judged, ["a", "b", "random"], baseline="random")
        assert math.isnan(marks["b"].p_random)
        assert not marks["b"].is_best
        assert marks["b"].not_better_than_random


@pytest.mark.parametrize("texts", [1, 2])
def test_counts_are_in_the_right_number(texts: int) -> None:
    values = {"good": np.arange(texts) + 1.0, "random": np.zeros(texts)}
    ranking = with_errors(column("e", values), texts=texts)
    noun = "1 text" if texts == 1 else "2 texts"
    assert ranking.verdict.startswith(f"Too few texts: with {noun}, no test of these data")
    assert "good from random numbers" in ranking.verdict
    assert headline(ranking) == f"m on d: {noun}, 2 measures"
