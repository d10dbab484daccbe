"""The result of a benchmark: measures ranked on a model and its data."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.benchmark.findings import Findings, RowError
from mixlens.benchmark.marks import Marks, marks_of
from mixlens.benchmark.plan import BASELINE, Plan
from mixlens.benchmark.standings import Column, Standing, standings
from mixlens.benchmark.verdict import verdict
from mixlens.evaluations import Result, evaluations
from mixlens.maps.provenance import plain

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, kw_only=True)
class Ranking:
    """The measures from best to worst (`order`), the results of each evaluation (`columns`,
    `marks`), and a `verdict` in plain words.
    """

    standings: Mapping[str, Standing]  # from first to last
    columns: Mapping[str, Column]  # by evaluation
    marks: Mapping[str, Mapping[str, Marks]]  # by evaluation, by measure
    of_model: Mapping[str, Result]  # evaluations of the model, not of a measure
    seconds: Mapping[str, float]  # seconds per text
    left_out: Mapping[str, str]  # absent measures and evaluations, with the reason
    not_judged: Mapping[
        str, str
    ]  # measures that no evaluation of these data ranks, with the reason
    errors: tuple[RowError, ...]  # errors of single examples
    texts: int
    settings: Mapping[str, Any]

    @property
    def order(self) -> tuple[str, ...]:
        """Return the measures, best first."""
        return tuple(self.standings)

    @cached_property
    def verdict(self) -> str:
        """Return a recommendation with reasons and caveats."""
        return "\n".join(verdict(self))

    def to_dataframe(self) -> pd.DataFrame:
        """Return a table with one row per measure and evaluation."""
        import pandas as pd

        return pd.DataFrame(
            {
                "measure": measure,
                "mean_rank": standing.mean_rank,
                "evaluation": name,
                **self.cell(name, measure),
            }
            for measure, standing in self.standings.items()
            for name in self.columns
            if measure in self.columns[name].results
        )

    def cell(self, evaluation: str, measure: str) -> dict[str, Any]:
        """Return value, interval, rank and test results of one measure in one evaluation."""
        result = self.columns[evaluation].results[measure]
        marks = self.marks[evaluation].get(measure, Marks())
        return {
            "value": result.value,
            "low": result.interval[0],
            "high": result.interval[1],
            "examples": int((~np.isnan(result.per_example)).sum()),
            "rank": self.standings[measure].ranks.get(evaluation, math.nan),
            "p_best": marks.p_best,
            "p_random": marks.p_random,
            "is_best": marks.is_best,
            "not_different_from_best": marks.not_different_from_best,
            "not_better_than_random": marks.not_better_than_random,
            "judges_itself": marks.judges_itself,
        }

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write a self-contained page with the verdict and the ranked measures."""
        from mixlens.views.viewer import page, payload

        page.write(payload.ranking_payload(self.to_dict()), path)

    def _repr_html_(self) -> str:
        from mixlens.views.viewer import page, payload

        return page.frame(payload.ranking_payload(self.to_dict()))

    def to_dict(self) -> dict[str, Any]:
        """Return the ranking as plain values for JSON, with None in place of NaN."""
        specs = evaluations()
        content: dict[str, Any] = plain(
            {
                "verdict": self.verdict,
                "texts": self.texts,
                "measures": [
                    {"measure": m, **asdict(s), "seconds_per_text": self.seconds.get(m, math.nan)}
                    for m, s in self.standings.items()
                ],
                "evaluations": {
                    name: {
                        "summary": column.summary,
                        "citation": specs[name].citation,
                        "direction": column.direction,
                        "measures": {
                            m: self.cell(name, m) | {"details": column.results[m].details}
                            for m in self.order
                            if m in column.results
                        },
                    }
                    for name, column in self.columns.items()
                },
                "model": {
                    name: {
                        "summary": specs[name].summary,
                        **{k: v for k, v in r.to_dict().items() if k != "per_example"},
                    }
                    for name, r in self.of_model.items()
                },
                "left_out": dict(self.left_out),
                "not_judged": dict(self.not_judged),
                "errors": [asdict(error) for error in self.errors],
                "settings": dict(self.settings),
            },
            finite=True,
        )
        return content


def _not_judged(findings: Findings, measures: Sequence[str]) -> dict[str, str]:
    """Return the measures that failed on these data, each with its most frequent error.

    A measure counts as failed if it raised errors and is ranked by no evaluation, or only by
    evaluations that do not use the data set.
    """
    of_data = [column for column in findings.columns if column.by_text]
    reasons = {}
    for measure in measures:
        has_ranks = any(column.find_ranked([measure]).any() for column in findings.columns)
        applies = any(measure in column.results for column in of_data)
        errors = Counter(e.reason for e in findings.errors if e.measure == measure)
        if measure != BASELINE and errors and not (has_ranks and (applies or not of_data)):
            reasons[measure] = errors.most_common(1)[0][0].removeprefix(f"{measure}, ")
    return reasons


def rank(
    findings: Findings, plan: Plan, texts: int, settings: Mapping[str, Any], *, seed: int = 0
) -> Ranking:
    """Rank the measures by the results of a run, with significance tests and intervals."""
    measures = [
        m
        for m in plan.measures
        if m not in findings.left_out and any(m in c.results for c in findings.columns)
    ]
    not_judged = _not_judged(findings, measures)
    measures = [m for m in measures if m not in not_judged]
    return Ranking(
        standings=standings(findings.columns, measures, baseline=BASELINE, seed=seed),
        columns={column.evaluation: column for column in findings.columns},
        marks={
            column.evaluation: marks_of(column, measures, baseline=BASELINE, seed=seed)
            for column in findings.columns
        },
        of_model=findings.of_model,
        seconds=findings.seconds,
        left_out=findings.left_out,
        not_judged=not_judged,
        errors=findings.errors,
        texts=texts,
        settings=settings,
    )
