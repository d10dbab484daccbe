"""The results of a run as a Parquet data set: one row for each text, measure and layer.

Files are written under a temporary name and renamed, so that a reader never meets half of one. Each
carries in its metadata, under the key `mixlens`, what is the same for all its rows: the version of
this schema, the settings of the run, and of each measure its provenance and facts.
"""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.errors import InvalidInput, MissingExtra
from mixlens.maps import MixingMaps
from mixlens.provenance import plain
from mixlens.runs.summaries import summarise
from mixlens.storage import write_whole

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 1
DATA = "data"
KEEP = ("summary", "rollout", "scores")
METADATA = b"mixlens"


def require_parquet() -> None:
    """Better now than after hours of work."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise MissingExtra("pyarrow", "corpus") from error


def schema() -> pa.Schema:
    """The columns; documented in docs/corpus_runs.md."""
    import pyarrow as pa

    strings, integers, floats = (pa.list_(t) for t in (pa.string(), pa.int32(), pa.float32()))
    return pa.schema(
        [
            ("id", pa.string()),
            ("line", pa.int64()),
            ("measure", pa.string()),
            ("layer", pa.int32()),
            ("tokens", strings),
            ("special", pa.list_(pa.bool_())),
            ("targets", integers),
            ("target_tokens", strings),
            ("top_sources", pa.list_(integers)),
            ("top_shares", pa.list_(floats)),
            ("entropy", floats),
            ("own_share", floats),
            ("special_share", floats),
            ("mean_distance", floats),
            ("shape", integers),
            ("scores", floats),
        ]
    )


def rows_of(
    maps: MixingMaps, shares: np.ndarray, *, line: int, name: str, keep: str
) -> list[dict[str, Any]]:
    """One text and measure: a row for each layer."""
    rows = []
    for number, summary in enumerate(summarise(maps, shares)):
        kept = None if keep == "summary" else maps.scores[number]
        rows.append(
            {
                "id": name,
                "line": line,
                "measure": maps.provenance["measure"],
                "layer": maps.layers[number],
                "tokens": list(maps.source_tokens),
                "special": None if maps.source_row.special is None else maps.source_row.special,
                "targets": list(maps.target_positions),
                "target_tokens": list(maps.tokens),
                **{key: _listed(value) for key, value in summary.items()},
                "shape": list(maps.scores.shape[1:]),
                "scores": None if kept is None else kept.astype("float32").reshape(-1),
            }
        )
    return rows


def _listed(value: Any) -> Any:
    return list(value) if value is not None and value.ndim > 1 else value


def about(maps: MixingMaps) -> dict[str, Any]:
    """What is the same for all texts of one measure."""
    found: dict[str, Any] = plain(
        {
            "provenance": maps.provenance,
            "facts": asdict(maps.facts),
            "rollout": [maps.rollout_residual, maps.rollout_normalized],
        }
    )
    return found


def write_shard(
    path: Path, rows: Sequence[Mapping[str, Any]], description: Mapping[str, Any]
) -> str:
    """Writes a file whole and gives the hash of its content."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    text = json.dumps({"schema": SCHEMA_VERSION, **description}, sort_keys=True)
    table = pa.Table.from_pylist(list(rows), schema().with_metadata({METADATA: text.encode()}))
    content = BytesIO()
    pq.write_table(table, content, compression="zstd")  # type: ignore[no-untyped-call]
    write_safely(path, content.getvalue())
    return hashlib.sha256(content.getvalue()).hexdigest()


def write_errors(path: Path, errors: Sequence[Mapping[str, Any]]) -> None:
    """Rows that could not be measured: file, line, id, reason."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    fields = [("file", pa.string()), ("line", pa.int64()), ("id", pa.string())]
    table = pa.Table.from_pylist(list(errors), pa.schema([*fields, ("reason", pa.string())]))
    content = BytesIO()
    pq.write_table(table, content)  # type: ignore[no-untyped-call]
    write_safely(path, content.getvalue())


def write_safely(path: Path, content: str | bytes) -> None:
    """Writes a file whole; a full disk is an error that says what to do."""
    try:
        write_whole(path, content)
    except (OSError, InvalidInput) as error:
        cause = error.__cause__ if isinstance(error, InvalidInput) else error
        if getattr(cause, "errno", None) not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise InvalidInput(
            f"no space is left for {path}: free some, then the same command goes on"
        ) from error
