"""Write the results of a run as a Parquet data set: one row per text, measure and layer.

Files are written under a temporary name and renamed, so that a reader never sees an incomplete
file. Each file has metadata under the key `mixlens` that all its rows share: the version of this
schema, the settings of the run, and the provenance and properties of each measure.
"""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.contracts import Facts, Spec
from mixlens.datasets.object_storage import AnyPath
from mixlens.errors import InvalidInput, MissingExtra
from mixlens.maps.provenance import plain
from mixlens.maps.storage import write_whole
from mixlens.runs.summaries import TOP
from mixlens.text.tokens import TokenRow

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 1
DATA = "data"
MANIFEST, ERRORS, AGGREGATES = "manifest.json", "errors.parquet", "aggregates.json"
KEEP = ("summary", "rollout", "scores")
METADATA = b"mixlens"


def require_parquet() -> None:
    """Raise an error if pyarrow is missing. Call this before a run, not after hours of work."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise MissingExtra("pyarrow", "corpus") from error


def schema() -> pa.Schema:
    """Return the Parquet schema of the results. docs/corpus_runs.md describes the columns."""
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Chunk:
    """The results of one measure for a batch of texts, padded to the longest text."""

    measure: str
    layers: tuple[int, ...]
    places: Sequence[int]  # indices of its texts in the shard
    names: Sequence[str]
    lines: Sequence[int]
    sources: Sequence[TokenRow]
    targets: Sequence[TokenRow]
    positions: Sequence[tuple[int, ...]]
    # By column [text, layer, target(, rank)]; None if undefined for these targets.
    summary: Mapping[str, np.ndarray | None]
    scores: np.ndarray | None  # [layer, text, target, source]; None if not wanted


def about(provenance: Mapping[str, Any], facts: Facts, spec: Spec) -> dict[str, Any]:
    """Return the metadata that all texts of one measure share."""
    description: dict[str, Any] = plain(
        {
            "provenance": provenance,
            "facts": asdict(facts),
            "rollout": [
                spec.rollout_residual,
                spec.rollout_normalised,
                spec.rollout_adds_identity,
            ],
        }
    )
    return description


def write_shard(path: AnyPath, chunks: Sequence[Chunk], description: Mapping[str, Any]) -> str:
    """Write a results file atomically, and return the hash of its content.

    The rows are ordered by text, measure and layer.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    text = json.dumps({"schema": SCHEMA_VERSION, **description}, sort_keys=True)
    file_schema = schema().with_metadata({METADATA: text.encode()})
    measures = list(dict.fromkeys(chunk.measure for chunk in chunks))
    tables = [pa.Table.from_pydict(_columns(chunk), schema=file_schema) for chunk in chunks]
    table = pa.concat_tables(tables) if tables else file_schema.empty_table()
    keys = [_keys(chunk, measures.index(chunk.measure)) for chunk in chunks]
    order = np.lexsort(np.concatenate(keys, 1)[::-1]) if keys else np.array([], np.int64)
    sink = pa.BufferOutputStream()  # a Python file object would take its lock at every step
    pq.write_table(  # type: ignore[no-untyped-call]
        table.take(pa.array(order)),
        sink,
        compression="zstd",
        use_dictionary=["id", "measure", "tokens.list.element", "target_tokens.list.element"],
        write_statistics=["id", "line", "measure", "layer"],  # nobody searches for others by size
    )
    content = memoryview(sink.getvalue())
    write_safely(path, content)
    return hashlib.sha256(content).hexdigest()


def _keys(chunk: Chunk, measure: int) -> np.ndarray:
    """Return the keys by which the rows of a file are sorted, [key, row]: text, measure and
    layer.
    """
    places, layers = np.array(chunk.places), np.arange(len(chunk.layers))
    by_text = np.repeat(places, len(layers))
    return np.stack([by_text, np.full_like(by_text, measure), np.tile(layers, len(places))])


def _columns(chunk: Chunk) -> dict[str, pa.Array]:
    """Return the columns of a results file, with one row for each text and layer.

    Whole arrays are passed to Arrow, because converting numbers one by one would take longer than
    measuring.
    """
    import pyarrow as pa

    texts, layers = len(chunk.names), len(chunk.layers)
    targets = np.array([len(places) for places in chunk.positions])
    sources = np.array([len(tokens) for tokens in chunk.sources])
    ranks = np.minimum(sources, TOP)
    by_text = np.repeat(np.arange(texts), layers)
    by_text_columns = {
        "id": pa.array(chunk.names, pa.string()),
        "line": pa.array(chunk.lines, pa.int64()),
        "tokens": pa.array([tokens.labels for tokens in chunk.sources], pa.list_(pa.string())),
        "special": pa.array([tokens.special for tokens in chunk.sources], pa.list_(pa.bool_())),
        "targets": pa.array(chunk.positions, pa.list_(pa.int32())),
        "target_tokens": pa.array(
            [
                [tokens.labels[place] for place in places]
                for tokens, places in zip(chunk.targets, chunk.positions, strict=True)
            ],
            pa.list_(pa.string()),
        ),
        "shape": pa.array(np.stack([targets, sources], 1).tolist(), pa.list_(pa.int32())),
    }
    columns = {key: array.take(pa.array(by_text)) for key, array in by_text_columns.items()}
    columns["measure"] = pa.array([chunk.measure] * (texts * layers))
    columns["layer"] = pa.array(np.tile(np.array(chunk.layers, np.int32), texts))
    for key, values in chunk.summary.items():
        if values is None:
            columns[key] = pa.nulls(texts * layers, pa.list_(pa.float32()))
        elif values.ndim == 3:
            columns[key] = _lists(values, targets)
        else:
            columns[key] = _lists(values, targets, ranks)
    columns["scores"] = (
        pa.nulls(texts * layers, pa.list_(pa.float32()))
        if chunk.scores is None
        else _lists(chunk.scores.swapaxes(0, 1), targets, sources, flat=True)
    )
    return columns


def _lists(
    values: np.ndarray, targets: np.ndarray, inner: np.ndarray | None = None, *, flat: bool = False
) -> pa.Array:
    """Convert a padded array [text, layer, target(, inner)] to one list for each text and layer.

    Padding is removed. If there is an inner axis, each entry is a list of lists, unless `flat` is
    True.
    """
    import pyarrow as pa

    layers = values.shape[1]
    real = np.arange(values.shape[2]) < targets[:, None]  # [text, target]
    sizes = targets
    if inner is not None:
        real = real[..., None] & (np.arange(values.shape[3]) < inner[:, None])[:, None]
        sizes = targets * inner if flat else targets
    flat_values = values[np.broadcast_to(real[:, None], values.shape)]
    array = pa.array(flat_values)
    if inner is not None and not flat:
        array = pa.ListArray.from_arrays(_offsets(np.repeat(inner, targets * layers)), array)
    return pa.ListArray.from_arrays(_offsets(np.repeat(sizes, layers)), array)


def _offsets(sizes: np.ndarray) -> pa.Array:
    import pyarrow as pa

    return pa.array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32))


def write_errors(path: AnyPath, errors: Sequence[Mapping[str, Any]]) -> None:
    """Write the records that could not be measured, with file, line, id and reason."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    fields = [("file", pa.string()), ("line", pa.int64()), ("id", pa.string())]
    table = pa.Table.from_pylist(list(errors), pa.schema([*fields, ("reason", pa.string())]))
    content = BytesIO()
    pq.write_table(table, content)  # type: ignore[no-untyped-call]
    write_safely(path, content.getvalue())


def write_safely(path: AnyPath, content: str | bytes | memoryview) -> None:
    """Write a file atomically. If the disk is full, the error says how to continue."""
    try:
        write_whole(path, content)
    except (OSError, InvalidInput) as error:
        cause = error.__cause__ if isinstance(error, InvalidInput) else error
        if getattr(cause, "errno", None) not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise InvalidInput(
            f"No space is left for {path}. Free some space, then run the same command to resume."
        ) from error
