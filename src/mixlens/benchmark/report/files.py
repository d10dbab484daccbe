"""Write the files of a run: observations.parquet, results.json, errors.csv, report.md with its
plots, report.html.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.benchmark.report.markdown import write_markdown
from mixlens.benchmark.report.page import page
from mixlens.benchmark.report.wording import charts_of
from mixlens.errors import MissingExtra
from mixlens.maps.provenance import plain
from mixlens.maps.storage import write_whole

if TYPE_CHECKING:
    from mixlens.benchmark.ranking import Ranking

_LARGEST = 64  # longest array of a table cell; the journal has them all


def write_files(
    folder: Path, ranking: Ranking, entries: Iterable[Mapping[str, Any]], example: str
) -> None:
    """Write all files of a run, each of them atomically. `example` is an HTML frame with the viewer
    for one text.
    """
    from mixlens.views.charts import standalone

    write_whole(folder / "observations.parquet", _parquet(entries))
    write_whole(
        folder / "results.json", json.dumps(ranking.to_dict(), indent=2, ensure_ascii=False) + "\n"
    )
    write_whole(folder / "errors.csv", _errors(ranking))
    try:
        charts = charts_of(ranking)
    except MissingExtra:  # a report without plots is still useful
        charts = {}
    plots = {}
    if charts:
        (folder / "plots").mkdir(exist_ok=True)
    for title, svg in charts.items():
        plots[title] = f"plots/{title.lower().replace(' ', '_')}.svg"
        write_whole(folder / plots[title], standalone(svg))
    write_whole(folder / "report.md", write_markdown(ranking, plots))
    write_whole(folder / "report.html", page(ranking, charts, example))


def _parquet(entries: Iterable[Mapping[str, Any]]) -> bytes:
    """Write one row for each example, evaluation and measure.

    The measure column is empty for evaluations of the model itself.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    fields = [(name, pa.string()) for name in ("example", "group", "evaluation", "measure")]
    schema = pa.schema([*fields, ("value", pa.float64()), ("observation", pa.string())])
    buffer = io.BytesIO()
    with pq.ParquetWriter(buffer, schema) as writer:  # type: ignore[no-untyped-call]
        for piece in entries:
            rows = [
                {
                    "example": piece["example"],
                    "group": piece.get("group"),
                    "evaluation": entry["evaluation"],
                    "measure": entry["measure"],
                    "value": _value(entry["seen"]),
                    "observation": _format_row(entry["seen"]),
                }
                for entry in piece["observations"]
            ]
            if rows:
                writer.write_table(pa.Table.from_pylist(rows, schema))
    return buffer.getvalue()


def _value(observation: Any) -> float:
    if isinstance(observation, Mapping):
        observation = observation.get("value", math.nan)
    return float(observation) if isinstance(observation, (int, float)) else math.nan


def _format_row(observation: Any) -> str:
    return json.dumps(plain(_shorten(observation), finite=True), ensure_ascii=False)


def _shorten(value: Any) -> Any:
    """Return the value with long arrays replaced by their shape and long lists truncated.

    The result fits into one table cell.
    """
    if isinstance(value, np.ndarray) and value.size > _LARGEST:
        return f"array of {' x '.join(map(str, value.shape))}"
    if isinstance(value, Mapping):
        return {key: _shorten(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_shorten(entry) for entry in value[:_LARGEST]]
    return value


def _errors(ranking: Ranking) -> str:
    buffer = io.StringIO()
    table = csv.writer(buffer)
    table.writerow(["example", "measure", "evaluation", "reason"])
    table.writerows(
        [error.example, error.measure, error.evaluation, error.reason] for error in ranking.errors
    )
    return buffer.getvalue()
