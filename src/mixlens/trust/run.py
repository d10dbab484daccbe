"""The run: every text recorded once and judged by every evaluation, written down as it goes, then
ranked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixlens.corpus.dataset import Dataset
from mixlens.corpus.examples import Example
from mixlens.errors import InvalidInput, MissingExtra
from mixlens.evaluations import module
from mixlens.trust.findings import Findings, RowError, findings
from mixlens.trust.journal import Journal
from mixlens.trust.observing import own_observed, text_observed
from mixlens.trust.plan import Plan, planned
from mixlens.trust.ranking import Ranking, ranking_of
from mixlens.trust.settings import settings_of

if TYPE_CHECKING:
    import os

    from mixlens.lens import Lens

Progress = Callable[[int, int, int], None]
"""Called after every piece of work: how many are done, of how many, and how many of those an
earlier run had done.
"""


def benchmark(
    lens: Lens,
    dataset: Dataset | Sequence[Example],
    measures: Sequence[str] | None = None,
    evaluations: Sequence[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    *,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    other: Lens | None = None,
    seed: int = 0,
    fresh: bool = False,
    progress: Progress | None = None,
) -> Ranking:
    """Ranks measures on a model by every evaluation that fits the data.

    `measures` and `evaluations` default to all. `options` holds further options by the name of a
    measure or an evaluation; `other` is a second model for the evaluations that compare two. With
    `out`, a folder: observations, results and a report are written there, and a run that was
    interrupted goes on where it stopped; `fresh` starts over.
    """
    data = _data(dataset)
    plan = planned(
        data.kind, measures, evaluations, options=options, extras={"other": other, "seed": seed}
    )
    settings = settings_of(lens, data, plan, other=other, seed=seed)
    folder = None if out is None else Path(out)
    if folder is not None:
        _require_parquet()
    with Journal.opened(folder, settings, fresh=fresh) as journal:
        work = dict(_work(lens, data, plan))
        before = len(journal.done & work.keys())
        for name, piece in work.items():
            if name not in journal.done:
                journal.add(name, piece())
            if progress is not None:
                progress(len(journal.done), len(work), before)
        found = findings(journal.pieces(), plan, len(data))
        found = _with_unread(found, data)
        ranking = ranking_of(found, plan, len(data), settings, seed=seed)
        if not ranking.standings and not ranking.of_model:
            raise InvalidInput("nothing could be evaluated: " + "; ".join(_reasons(ranking)))
        if folder is not None:
            from mixlens.trust.files import write_files

            write_files(folder, ranking, journal.pieces(), data)
    return ranking


def _work(
    lens: Lens, data: Dataset, plan: Plan
) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Pieces by name, in the order in which they are done."""
    if plan.of_measures or plan.of_model:
        for number, example in enumerate(data.examples):
            yield str(number), partial(text_observed, lens, example, plan)
    for evaluation in plan.own:
        for number, case in enumerate(module(evaluation).cases()):
            yield f"{evaluation} {number}", partial(own_observed, evaluation, case, plan)


def _data(given: Dataset | Sequence[Example]) -> Dataset:
    data = (
        given
        if isinstance(given, Dataset)
        else Dataset("examples", given[0].kind if given else "text", tuple(given))
    )
    if not data.examples:
        raise InvalidInput("there are no examples")
    return data


def _with_unread(found: Findings, data: Dataset) -> Findings:
    from dataclasses import replace

    unread = tuple(RowError(name, "", "", reason) for name, reason in data.errors)
    return replace(found, errors=(*unread, *found.errors))


def _reasons(ranking: Ranking) -> list[str]:
    found = [f"{error.example}: {error.reason}" for error in ranking.errors[:3]]
    return found or [f"{name}: {reason}" for name, reason in ranking.left_out.items()]


def _require_parquet() -> None:
    """Better now than after hours of work."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise MissingExtra("pyarrow", "corpus") from error
