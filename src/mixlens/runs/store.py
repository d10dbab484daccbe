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
from mixlens.runs.summaries import Summary
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
    maps: MixingMaps, summary: Summary, text: int, *, line: int, name: str, keep: str
) -> list[dict[str, Any]]:
    """One text and measure, which is the given one of its summary: a row for each layer."""
    shared = {
        "id": name,
        "line": line,
        "measure": maps.provenance["measure"],
        "tokens": list(maps.source_tokens),
        "special": maps.source_row.special,
        "targets": list(maps.target_positions),
        "target_tokens": list(maps.tokens),
        "shape": list(maps.scores.shape[1:]),
    }
    return [
        {
            **shared,
            "layer": layer,
            **{key: None if v is None else v[text, number] for key, v in summary.items()},
            "scores": None
            if keep == "summary"
            else maps.scores[number].astype(np.float32).reshape(-1),
        }
        for number, layer in enumerate(maps.layers)
    ]


def about(maps: MixingMaps) -> dict[str, Any]:
    """What is the same for all texts of one measure."""
    description: dict[str, Any] = plain(
        {
            "provenance": maps.provenance,
            "facts": asdict(maps.facts),
            "rollout": [maps.rollout_residual, maps.rollout_normalized],
        }
    )
    return description


def write_shard(
    path: Path, rows: Sequence[Mapping[str, Any]], description: Mapping[str, Any]
) -> str:
    """Writes a file whole and gives the hash of its content."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    text = json.dumps({"schema": SCHEMA_VERSION, **description}, sort_keys=True)
    wanted = schema().with_metadata({METADATA: text.encode()})
    columns = [_column(field, [row[field.name] for row in rows]) for field in wanted]
    table = pa.Table.from_arrays(columns, schema=wanted)
    content = BytesIO()
    pq.write_table(table, content, compression="zstd")  # type: ignore[no-untyped-call]
    write_safely(path, content.getvalue())
    return hashlib.sha256(content.getvalue()).hexdigest()


def _column(field: pa.Field, values: list[Any]) -> pa.Array:
    """Arrays go in as they are: number by number would take longer than measuring."""
    import pyarrow as pa

    arrays = [value for value in values if isinstance(value, np.ndarray)]
    if not arrays:
        return pa.array(values, field.type)
    inner = field.type.value_type
    sizes = np.array([0 if value is None else len(value) for value in values])
    mask = pa.array([value is None for value in values])
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32))
    if pa.types.is_list(inner):  # [target, rank]
        counts = np.concatenate([np.full(len(a), a.shape[1]) for a in arrays])
        ends = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
        flat = pa.array(np.concatenate([a.reshape(-1) for a in arrays]), inner.value_type)
        return pa.ListArray.from_arrays(offsets, pa.ListArray.from_arrays(ends, flat))
    flat = pa.array(np.concatenate([a.reshape(-1) for a in arrays]), inner)
    return pa.ListArray.from_arrays(offsets, flat, mask=mask)


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
