"""The verdict in plain words: which measure to trust here, why, and what the numbers cannot say."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mixlens.evaluations import evaluations
from mixlens.trust.plan import BASELINE
from mixlens.trust.standings import SIGNIFICANT

if TYPE_CHECKING:
    from mixlens.trust.ranking import Ranking

FEW = 30  # examples below which intervals can hardly be trusted


def verdict(ranking: Ranking) -> list[str]:
    """Sentences, the answer first."""
    candidates = [
        m for m, s in ranking.standings.items() if m != BASELINE and not math.isnan(s.mean_rank)
    ]
    if not candidates:
        return ["No evaluation here says which way is better, so there is nothing to rank."]
    enough = _enough(len(candidates))
    if ranking.texts < enough:
        return [
            f"Too few texts to say: with {ranking.texts} no difference between {len(candidates)}"
            f" measures is more than chance. {enough} or more are needed. First by mean rank, for"
            f" what it is worth: {candidates[0]}."
        ]
    chance = list(_near_chance(ranking, candidates[0]))
    answer = [] if chance else [_answer(ranking, candidates[0])]
    return [*chance, *answer, *_doubts(ranking, candidates[0], candidates)]


def _near_chance(ranking: Ranking, first: str) -> Iterator[str]:
    """Says so if the model cannot do its task on these data."""
    specs = evaluations()
    for name, result in ranking.of_model.items():
        low = result.interval[0]
        if not specs[name].judges_data or result.chance is None or not low <= result.chance:
            continue
        yield (
            f"No measure can be recommended: the model itself is near chance here ({name}"
            f" {result.value:.2f}, lower end of the 95 % interval {low:.2f}, chance"
            f" {result.chance:.2f}), and what such a model does says little about measures. First"
            f" by mean rank, for what it is worth: {first}."
        )


def _enough(measures: int) -> int:
    """The smallest number of texts with which a paired test of this many measures can be
    significant at all.
    """
    return math.ceil(1 + math.log2(measures / SIGNIFICANT))


def _answer(ranking: Ranking, first: str) -> str:
    standing = ranking.standings[first]
    low, high = standing.interval
    spread = "" if math.isnan(low) else f" (95 % interval {low:.1f} to {high:.1f})"
    asked = (
        f"{standing.judged_by} {_plural('evaluation', standing.judged_by)} of {ranking.texts}"
        f" {_plural('text', ranking.texts)}"
    )
    rank = f"mean rank {standing.mean_rank:.1f}{spread} over {asked}"
    judged = [
        name for name, marks in ranking.marks.items() if first in marks and name in standing.ranks
    ]
    tested = [name for name in judged if not math.isnan(ranking.marks[name][first].p_random)]
    beaten = [name for name in tested if not ranking.marks[name][first].not_better_than_random]
    if tested and not beaten:
        return (
            f"No measure earns trust here: {first} is first, {rank}, but no evaluation finds it"
            " better than random numbers."
        )
    best = [name for name in judged if ranking.marks[name][first].is_best]
    reasons = [f"it is the best of {_listed(best)}"] if best else []
    if tested:
        reasons.append(
            "it beats random numbers in"
            f" {_listed(beaten) if len(beaten) < len(tested) else 'every one that was tested'}"
        )
    return f"Trust {first} first: {rank}" + (f"; {' and '.join(reasons)}." if reasons else ".")


def _doubts(ranking: Ranking, first: str, candidates: Sequence[str]) -> Iterator[str]:
    standing = ranking.standings[first]
    close = [m for m in candidates[1:] if ranking.standings[m].p_first >= SIGNIFICANT]
    if close:
        yield (
            f"Not different from it by mean rank: {_listed(close)}. The difference may be chance."
        )
    elif any(ranking.standings[m].p_first < SIGNIFICANT for m in candidates[1:]):
        yield (
            "Its mean rank is better than that of every other measure by more than chance explains."
        )
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
    useless = [m for m in candidates if _never_better(ranking, m)]
    if useless:
        yield f"Better than random numbers in no evaluation: {_listed(useless)}."
    itself = [
        f"{name} judges {m}"
        for name, marks in ranking.marks.items()
        for m, mark in marks.items()
        if mark.judges_itself
    ]
    if itself:
        yield (
            "Left out of mean ranks, because the evaluation works as the measure does:"
            f" {_listed(itself)}."
        )
    yield from _scope(ranking, standing.judged_by, candidates)


def _scope(ranking: Ranking, judged_by: int, candidates: Sequence[str]) -> Iterator[str]:
    if ranking.texts < FEW:
        yield (
            f"{ranking.texts} {_plural('text', ranking.texts)} are few: the intervals are rough,"
            " and real differences may not show."
        )
    if judged_by == 1:
        yield "One evaluation alone has been asked; others may rank the measures differently."
    most = max(ranking.standings[m].judged_by for m in candidates)
    seldom = [m for m in candidates if ranking.standings[m].judged_by * 2 < most]
    if seldom:
        yield (
            "Judged by fewer than half of the evaluations, and therefore put last:"
            f" {_listed(seldom)}."
        )
    yield (
        "This holds for this model and these texts; each evaluation has its own idea of what a good"
        " measure is."
    )


def _never_better(ranking: Ranking, measure: str) -> bool:
    judged = [
        marks[measure]
        for marks in ranking.marks.values()
        if measure in marks and not math.isnan(marks[measure].p_random)
    ]
    return bool(judged) and all(mark.not_better_than_random for mark in judged)


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
