"""Write the verdict of a benchmark: which measure to trust on these data, why, and how far the
results can be trusted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mixlens.benchmark.plan import BASELINE
from mixlens.benchmark.standings import SIGNIFICANT
from mixlens.errors import format_count
from mixlens.evaluations import evaluations

if TYPE_CHECKING:
    from mixlens.benchmark.ranking import Ranking

FEW = 30  # number of examples below which intervals are unreliable


def verdict(ranking: Ranking) -> list[str]:
    """Return the verdict as a list of sentences, starting with the measure to trust."""
    candidates = [
        m for m, s in ranking.standings.items() if m != BASELINE and not math.isnan(s.mean_rank)
    ]
    if not candidates and ranking.not_judged:
        return [f"No measure could be judged on these data: {_join([*ranking.not_judged])}."]
    if not candidates:
        return ["There is nothing to rank, because no evaluation defines whether higher is better."]
    first = candidates[0]
    as_it_is = f"First by mean rank: {first}."
    names = [
        name for name, column in ranking.columns.items() if column.find_ranked(candidates).any()
    ]
    if not any(ranking.columns[name].of_data for name in names):
        return [
            "No measure can be recommended: no evaluation of these texts ranks measures. The "
            f"ranks come from {_join(names)}, which uses its own models and texts. "
            f"{as_it_is}"
        ]
    enough = _enough(len(candidates))
    if ranking.texts < enough:
        difference = (
            f"{first} from random numbers"
            if len(candidates) == 1
            else f"{len(candidates)} measures from each other"
        )
        return [
            f"Too few texts: with {format_count(ranking.texts, 'text')}, no test of these data can "
            f"tell {difference}. Pass {enough} or more. {as_it_is}"
        ]
    refusals = [*_near_chance(ranking, as_it_is), *_no_better_than_random(ranking, first)][:1]
    answer = refusals or [_answer(ranking, first)]
    return [*answer, *_caveats(ranking, first, candidates, trusted=not refusals)]


def _near_chance(ranking: Ranking, as_it_is: str) -> Iterator[str]:
    """Yield a reason for not recommending any measure if the model is near chance level."""
    specs = evaluations()
    for name, result in ranking.of_model.items():
        low = result.interval[0]
        if not specs[name].judges_data or result.chance is None or not low <= result.chance:
            continue
        yield (
            f"No measure can be recommended: the model is near chance here ({name} "
            f"{result.value:.2f}, lower end of the 95 % interval {low:.2f}, chance "
            f"{result.chance:.2f}), so measures cannot be compared on it. {as_it_is}"
        )


def _enough(measures: int) -> int:
    """Return the number of texts below which no paired test can be significant, given the
    correction for comparing this many measures.
    """
    return math.ceil(1 + math.log2(measures / SIGNIFICANT))


def _no_better_than_random(ranking: Ranking, first: str) -> Iterator[str]:
    """Yield reasons for not recommending any measure if random scores do as well as the best."""
    opening = f"No measure can be recommended: {first} is first, {_rank(ranking, first)}, but"
    tested, beaten = _tests(ranking, first)
    if tested and not beaten:
        yield f"{opening} no evaluation finds it better than random numbers."
    floor = ranking.standings.get(BASELINE)
    if floor is None or math.isnan(floor.mean_rank):
        return
    if floor.mean_rank <= ranking.standings[first].mean_rank:
        yield f"{opening} random numbers have a mean rank of {floor.mean_rank:.1f}."
    if floor.p_first >= SIGNIFICANT:
        yield (
            f"{opening} the mean rank of random numbers, {floor.mean_rank:.1f}, is not "
            "significantly different."
        )


def _rank(ranking: Ranking, measure: str) -> str:
    standing = ranking.standings[measure]
    low, high = standing.interval
    spread = "" if math.isnan(low) else f" (95 % interval {low:.1f} to {high:.1f})"
    count, texts = (
        format_count(standing.judged_by, "evaluation"),
        format_count(ranking.texts, "text"),
    )
    return f"mean rank {standing.mean_rank:.1f}{spread} over {count} of {texts}"


def _tests(ranking: Ranking, measure: str) -> tuple[list[str], list[str]]:
    """Return the evaluations that test a measure against random scores, and the subset of these
    evaluations in which the measure is significantly better.
    """
    marks = {
        name: marks[measure]
        for name, marks in ranking.marks.items()
        if measure in marks and name in ranking.standings[measure].ranks
    }
    tested = [
        name
        for name, mark in marks.items()
        if mark.not_better_than_random or not math.isnan(mark.p_random)
    ]
    return tested, [name for name in tested if not marks[name].not_better_than_random]


def _answer(ranking: Ranking, first: str) -> str:
    ranks = ranking.standings[first].ranks
    tested, beaten = _tests(ranking, first)
    best = [
        name
        for name, marks in ranking.marks.items()
        if name in ranks and first in marks and marks[first].is_best
    ]
    reasons = [f"it is the best of {_join(best)}"] if best else []
    if tested:
        reasons.append(
            "it beats random numbers in"
            f" {_join(beaten) if len(beaten) < len(tested) else 'every one that was tested'}"
        )
    because = f"; {' and '.join(reasons)}." if reasons else "."
    return f"Trust {first} first: {_rank(ranking, first)}{because}"


def _caveats(
    ranking: Ranking, first: str, candidates: Sequence[str], *, trusted: bool
) -> Iterator[str]:
    standing = ranking.standings[first]
    close = [m for m in candidates[1:] if ranking.standings[m].p_first >= SIGNIFICANT]
    if close:
        yield (f"Not different from it by mean rank: {_join(close)}. The difference may be chance.")
    elif trusted and any(ranking.standings[m].p_first < SIGNIFICANT for m in candidates[1:]):
        yield ("Its mean rank is significantly better than that of every other measure.")
    for name, marks in ranking.marks.items():
        mark = marks.get(first)
        if (
            mark is None
            or name not in standing.ranks
            or mark.is_first
            or mark.not_different_from_best
            or math.isnan(mark.p_best)
        ):
            continue
        best = next(m for m, other in marks.items() if other.is_first)
        yield f"In {name} it is worse than {best}."
    useless = [m for m in candidates if (trusted or m != first) and _never_better(ranking, m)]
    if useless:
        yield f"Better than random numbers in no evaluation: {_join(useless)}."
    itself = [
        f"{name} judges {m}"
        for name, marks in ranking.marks.items()
        for m, mark in marks.items()
        if mark.judges_itself
    ]
    if itself:
        yield (
            "Excluded from mean ranks, because the evaluation works like the measure: "
            f"{_join(itself)}."
        )
    yield from _scope(ranking, standing.judged_by, candidates)


def _scope(ranking: Ranking, judged_by: int, candidates: Sequence[str]) -> Iterator[str]:
    if ranking.texts < FEW:
        yield (
            f"{format_count(ranking.texts, 'text')} are few: the intervals are rough, and real"
            " differences may not show."
        )
    if judged_by == 1:
        yield "There is only one evaluation; others may rank the measures differently."
    most = max(ranking.standings[m].judged_by for m in candidates)
    seldom = [m for m in candidates if ranking.standings[m].judged_by * 2 < most]
    if seldom:
        yield (
            f"Evaluated by fewer than half of the evaluations, and therefore last: {_join(seldom)}."
        )
    yield (
        "This holds for this model and these texts; each evaluation defines a good measure "
        "differently."
    )


def _never_better(ranking: Ranking, measure: str) -> bool:
    tested, beaten = _tests(ranking, measure)
    return bool(tested) and not beaten


def _join(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]
