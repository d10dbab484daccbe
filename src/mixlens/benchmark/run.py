"""Run a benchmark: record every text once, evaluate it, save the observations, then rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.benchmark.findings import Findings, RowError, conclude_run
from mixlens.benchmark.observing import Observer, Task, observer_for
from mixlens.benchmark.plan import Plan, make_plan
from mixlens.benchmark.ranking import Ranking, rank
from mixlens.datasets.dataset import Dataset, digest
from mixlens.datasets.examples import Example
from mixlens.errors import InvalidInput
from mixlens.maps.provenance import versions
from mixlens.runs.example_view import example_frame
from mixlens.runs.journal import Journal
from mixlens.runs.observing import Progress, Workers, work_through
from mixlens.runs.settings import describe_model
from mixlens.runs.store import require_parquet

if TYPE_CHECKING:
    import os

    from mixlens.lens import Lens


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
    workers: Workers | None = None,
) -> Ranking:
    """Rank measures on a model by every evaluation that fits the data.

    Parameters
    ----------
    lens
        The model.
    dataset
        Data set or examples, for example from `mixlens.datasets.read`.
    measures, evaluations
        Names. By default all that support the model and the data.
    out
        Folder for observations, results and a report. An interrupted run resumes from it.
    options
        Options, by the name of a measure or an evaluation.
    other
        Second model, for evaluations that compare two models.
    seed
        Seed of all random numbers.
    fresh
        If True, start over instead of resuming the run in `out`.
    progress
        Function that receives the progress.
    workers
        Processes that share the texts. Each of them loads the models itself.

    Returns
    -------
    Ranking
        `order` lists the measures, best first, and `verdict` summarises the result.

    Examples
    --------
    >>> from mixlens import Lens, datasets
    >>> from mixlens.benchmark import benchmark
    >>> data = datasets.bundled().sample(4)
    >>> names, evaluations = ["attention", "gradient_norm"], ["cue_alignment"]
    >>> ranking = benchmark(Lens.bundled(), data, names, evaluations)
    >>> sorted(ranking.order)
    ['attention', 'gradient_norm', 'random']
    """
    data = _as_dataset(dataset)
    extras = {"other": other, "seed": seed}
    plan = make_plan(data.kind, measures, evaluations, options=options, extras=extras)
    settings = _settings(lens, data, plan, other=other, seed=seed)
    folder = None if out is None else Path(out)
    if folder is not None:
        require_parquet()
    with Journal.open(folder, settings, fresh=fresh) as journal:
        observer = Observer(lens, plan)
        tasks = dict(_tasks(data, plan, observer))
        work_through(
            tasks,
            observer,
            journal,
            progress,
            engine=None if workers is None else workers.engine,
            start=None if workers is None else partial(observer_for, workers, plan.sent()),
        )
        findings = _with_unread(conclude_run(journal.entries(tasks), plan, len(data)), data)
        ranking = rank(findings, plan, len(data), settings, seed=seed)
        if not ranking.standings and not ranking.of_model:
            raise InvalidInput("Nothing could be evaluated: " + "; ".join(_reasons(ranking)))
        if folder is not None:
            from mixlens.benchmark.report.files import write_files

            example = example_frame(lens, data.examples, ranking.order)
            write_files(folder, ranking, journal.entries(tasks), example)
    return ranking


def _tasks(data: Dataset, plan: Plan, observer: Observer) -> Iterator[tuple[str, Task]]:
    """Yield the name of each task and the task itself, in order."""
    if plan.of_measures or plan.of_model:
        for number, example in enumerate(data.examples):
            yield str(number), example
    for evaluation in plan.own:
        for number, _ in enumerate(observer.cases(evaluation)):
            yield f"{evaluation} {number}", (evaluation, number)


def _settings(
    lens: Lens, data: Dataset, plan: Plan, *, other: Lens | None, seed: int
) -> dict[str, Any]:
    """Return all settings that affect the numbers, as plain values for JSON."""
    second = {} if other is None else describe_model(other)
    return {
        **describe_model(lens),
        "other model": second.get("model"),
        "other model weights": second.get("model weights"),
        "data": data.name,
        "kind": data.kind,
        "texts": len(data),
        "data hash": digest(data.examples),
        "measures": list(plan.measures),
        "evaluations": [*plan.of_measures, *plan.of_model, *plan.own],
        "options": {
            name: {key: str(value) for key, value in values.items()}
            for name, values in plan.options.items()
        },
        "seed": seed,
        "versions": {**versions(), "numpy": np.__version__},
    }


def _as_dataset(data: Dataset | Sequence[Example]) -> Dataset:
    if not isinstance(data, Dataset):
        if isinstance(data, str) or not all(isinstance(each, Example) for each in data):
            raise InvalidInput(
                "The data is not a list of examples. Read a data set with mixlens.datasets.read."
            )
        data = Dataset("examples", data[0].kind if data else "text", tuple(data))
    if not data.examples:
        raise InvalidInput("No examples were passed. Pass at least one.")
    return data


def _with_unread(findings: Findings, data: Dataset) -> Findings:
    unread = tuple(RowError(name, "", "", reason) for name, reason in data.errors)
    return replace(findings, errors=(*unread, *findings.errors))


def _reasons(ranking: Ranking) -> list[str]:
    reasons = [f"{error.example}: {error.reason}" for error in ranking.errors[:3]]
    return reasons or [f"{name}: {reason}" for name, reason in ranking.left_out.items()]
