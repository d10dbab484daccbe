"""Words and numbers that the terminal, Markdown and HTML reports share."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.benchmark.plan import BASELINE
from mixlens.errors import format_count
from mixlens.evaluations import evaluations

if TYPE_CHECKING:
    from mixlens.benchmark.findings import RowError
    from mixlens.benchmark.marks import Marks
    from mixlens.benchmark.ranking import Ranking
    from mixlens.evaluating.contracts import EvaluationSpec
    from mixlens.evaluations import Result

BEST, LIKE_BEST, LIKE_RANDOM, ITSELF = "★", "≈", "○", "↺"
LEGEND = {
    BEST: "best of its column",
    LIKE_BEST: "not significantly different from the best (paired permutation test, Holm's"
    " correction, 5 %)",
    LIKE_RANDOM: "not better than random (same test)",
    ITSELF: "works in the same way as the evaluation, so it does not count for the mean rank",
}
ARROWS = {"higher": "↑", "lower": "↓", "neither": ""}
DIRECTIONS = {
    "higher": "higher is better",
    "lower": "lower is better",
    "neither": "only describes the measures",
}


def signs(marks: Marks) -> str:
    """Return the symbols for the test results of a measure, such as best or not better than
    random.
    """
    pairs = (
        (marks.is_best, BEST),
        (marks.not_different_from_best, LIKE_BEST),
        (marks.not_better_than_random, LIKE_RANDOM),
        (marks.judges_itself, ITSELF),
    )
    return "".join(sign for holds, sign in pairs if holds)


def number(value: float, digits: int = 3) -> str:
    """Format a number with a fixed number of decimals. NaN becomes a dash."""
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def spread(interval: tuple[float, float], digits: int = 3) -> str:
    """Return ± and half the width of an interval, or an empty string if the interval is unknown."""
    low, high = interval
    return "" if math.isnan(low) or math.isnan(high) else f"±{(high - low) / 2:.{digits}f}"


def between(interval: tuple[float, float], digits: int = 3) -> str:
    """Return an interval in brackets, or an empty string if the interval is unknown."""
    low, high = interval
    return "" if math.isnan(low) or math.isnan(high) else f"[{low:.{digits}f}, {high:.{digits}f}]"


def seconds(value: float | None) -> str:
    """Format a time in seconds with suitable precision. An unknown time becomes a dash."""
    return (
        "–"
        if value is None or math.isnan(value)
        else f"{value:.3f}"
        if value < 10
        else f"{value:.0f}"
    )


def headline(ranking: Ranking) -> str:
    """Return one line with the model, the data, and the numbers of texts and measures."""
    settings = ranking.settings
    counts = format_count(ranking.texts, "text"), format_count(len(ranking.order), "measure")
    return f"{settings['model']} on {settings['data']}: {', '.join(counts)}"


def select_errors(ranking: Ranking) -> list[RowError]:
    """Return the errors on single examples to show in a report.

    Errors of measures that could not be ranked are left out, because the report lists these
    measures separately.
    """
    return [error for error in ranking.errors if error.measure not in ranking.not_judged]


def error_groups(errors: Iterable[RowError]) -> list[tuple[str, str, list[str]]]:
    """Return (step, reason, examples) for each kind of error, the most frequent kind first."""
    groups: dict[tuple[str, str], list[RowError]] = defaultdict(list)
    for error in errors:
        groups[error.measure, error.reason].append(error)
    rows = []
    for (measure, reason), group_errors in sorted(groups.items(), key=lambda group: -len(group[1])):
        evaluation_names = ", ".join(
            dict.fromkeys(e.evaluation for e in group_errors if e.evaluation)
        )
        under = " under ".join(part for part in (measure, evaluation_names) if part)
        names = list(dict.fromkeys(e.example for e in group_errors))
        rows.append((under or "reading and recording", reason, names))
    return rows


def first_few(names: list[str], most: int = 5) -> str:
    """Join the first few names, and add how many others there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


ByLayer = tuple[list[str], list[list[str]]]
"""The head of a table over layers, and its rows."""


def report_details(spec: EvaluationSpec, result: Result) -> tuple[dict[str, str], list[ByLayer]]:
    """Return the details of a result that its evaluation lists for reports, as scalars and as
    tables with one column per layer.
    """
    numbers: dict[str, str] = {}
    tables: dict[tuple[str, ...], list[list[str]]] = {}
    for key, detail in spec.reports.items():
        value: Any = result.details
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is None:
            continue
        if not detail.axis:
            numbers[detail.words] = value if isinstance(value, str) else f"{float(value):.4g}"
            continue
        cells = [f"{float(entry):.3g}" for entry in np.asarray(value)]
        heads = _number_states(detail.axis, len(cells), result.details.get("layer"))
        tables.setdefault(("layer", *heads), []).append([detail.words, *cells])
    return numbers, [(list(heads), rows) for heads, rows in tables.items()]


def _number_states(axis: str, count: int, states: Any) -> list[str]:
    """Return one label for each layer or state.

    Layers are numbered from 0. The first state is labelled "input", and every other state by the
    layer that returned it.
    """
    numbers = range(count) if states is None or len(states) != count else states
    if axis == "layer":
        return [str(number) for number in numbers]
    return ["input" if number == 0 else str(number - 1) for number in numbers]


def charts_of(ranking: Ranking) -> dict[str, str]:
    """Return SVG charts by title. Needs matplotlib."""
    from mixlens.views import charts

    by_title = {}
    order = ranking.order
    ranked = {
        m: (s.mean_rank, *s.interval)
        for m, s in ranking.standings.items()
        if not math.isnan(s.mean_rank)
    }
    if ranked:
        by_title["Mean rank"] = charts.rank_bars(ranked)
    panels = {
        name: {
            m: (result.value, *result.interval)
            for m, result in column.results.items()
            if m in order and not math.isnan(result.value)
        }
        for name, column in ranking.columns.items()
    }
    if panels:
        arrows = {name: ARROWS[column.direction] for name, column in ranking.columns.items()}
        by_title["Every evaluation"] = charts.evaluation_panels(panels, order, BASELINE, arrows)
    for name, column in ranking.columns.items():
        if not evaluations()[name].by_layer:
            continue
        results = {m: column.results[m] for m in order if m in column.results}
        curves = {
            m: list(r.details["layers"])
            for m, r in results.items()
            if len(r.details.get("layers", ())) > 1
        }
        if curves:
            label = name.replace("_", " ")
            title = f"{label.capitalize()} by layer"
            by_title[title] = charts.layer_curves(curves, label)
    return by_title
