"""Rank measures by their mean over texts, as a table and as bars with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from mixlens.evaluating.contracts import Result
from mixlens.views import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def rank_measures(results: Mapping[str, Result], column: str = "spearman") -> pd.DataFrame:
    """Return a table of the measures and their values, best first."""
    rows = [
        {
            "measure": name,
            column: result.value,
            "std": result.details.get("std"),
            "low": result.interval[0],
            "high": result.interval[1],
        }
        for name, result in results.items()
    ]
    return pd.DataFrame(rows).sort_values(column, ascending=False).reset_index(drop=True)


def draw_ranked_bars(results: Mapping[str, Result], title: str) -> Figure:
    """Return a bar chart of the measures with their intervals, best first."""
    values = {
        name: result.value
        for name, result in sorted(results.items(), key=lambda item: -item[1].value)
    }
    return figures.bars(
        {"": values},
        intervals={"": {name: results[name].interval for name in values}},
        title=title,
        y_label="Spearman's rho",
    )
