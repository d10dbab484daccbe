"""Split a corpus into shards once, without loading it into memory, and read it shard by shard.

A shard is a range of records that a worker can read without reading earlier records: bytes of a
text, JSONL, CSV, TSV or CoNLL-U file, rows of a Parquet file, or records of a streamed Hugging Face
data set. A shard stores a hash of its records, so that mixlens detects a changed corpus.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from mixlens.datasets.hub import open_stream
from mixlens.datasets.object_storage import AnyPath, parquet_source, path_of
from mixlens.errors import InvalidInput, MissingExtra

FORMATS = {
    ".txt": "text",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".conllu": "conllu",
    ".parquet": "parquet",
}
COMPRESSED = (".gz", ".zst", ".bz2", ".xz", ".zip")


@dataclass(frozen=True, kw_only=True)
class Shard:
    """The location of a range of records in a corpus."""

    number: int
    path: str
    format: str
    start: int  # first byte, or first row of a Parquet file or data set
    stop: int  # one after the last
    first_line: int  # line number in the file, from 1
    rows: int
    digest: str
    prefix: str = ""  # prefix of line identifiers: the file, if there are several

    def to_dict(self) -> dict[str, Any]:
        """Return the shard as plain values for JSON."""
        return asdict(self)


def cut_into_shards(source: str, records: int) -> list[Shard]:
    """Return the shards of a file, a folder, `s3://BUCKET/NAME` or `hf:NAME`, each with at most
    `records` records.
    """
    if records < 1:
        raise InvalidInput(f"rows={records} is out of range. Pass at least 1 text per shard.")
    shards: list[Shard] = []
    files = _files(source)
    for path, kind in files:
        prefix = f"{Path(path).name}:" if len(files) > 1 else ""
        for part in _CUTTERS[kind](path, records):
            shards.append(Shard(number=len(shards), path=path, format=kind, prefix=prefix, **part))
    if not shards:
        raise InvalidInput(f"{source} is empty. Pass a file with texts.")
    return shards


def _files(source: str) -> list[tuple[str, str]]:
    if source.startswith("hf:"):
        return [(source, "hub")]
    place = path_of(source)
    if not place.exists():
        raise InvalidInput(
            f"{source} does not exist. Pass a file, a folder, s3://BUCKET/NAME or hf:NAME."
        )
    files: list[AnyPath] = [*place.iterdir()] if place.is_dir() else [place]
    files.sort(key=str)
    for path in files:
        if path.suffix.lower() in COMPRESSED:
            raise InvalidInput(
                f"{path} is compressed. Unpack it first, because workers start reading in the"
                " middle of a file."
            )
    if place.is_dir():
        files = [path for path in files if path.suffix.lower() in FORMATS]
        if not files:
            raise InvalidInput(f"{source} has no supported file. Use one of: {', '.join(FORMATS)}.")
    elif place.suffix.lower() == ".json":
        raise InvalidInput(
            f"{source} is JSON, but corpora are read line by line. Write one object per line "
            "into a .jsonl file."
        )
    return [(str(p.resolve()), FORMATS.get(p.suffix.lower(), "text")) for p in files]


def _cut_lines(
    path: str, records: int, *, header: bool = False, read_record: Callable[[Lines], bytes]
) -> Iterator[dict[str, Any]]:
    """Yield byte ranges that end at the end of a record, which may span several lines."""
    with path_of(path).open("rb") as opened:
        file, line, stop = Lines(opened), 1, 0
        if header:
            header_line = read_record(file)
            line, stop = line + len(header_line.splitlines()), len(header_line)
        while True:
            start, first, count, digest = stop, line, 0, hashlib.sha256()
            while count < records and (raw := read_record(file)):
                digest.update(raw)
                count, line, stop = count + 1, line + len(raw.splitlines()), stop + len(raw)
            if count == 0:
                return
            yield {
                "start": start,
                "stop": stop,
                "first_line": first,
                "rows": count,
                "digest": digest.hexdigest()[:16],
            }


class Lines:
    """Read the lines of an open file. A line includes its line ending, which is LF, CRLF or CR."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._next: list[bytes] = []  # last line first

    def readline(self) -> bytes:
        """Return the next line, or an empty line at the end of the file."""
        if self._next:
            return self._next.pop()
        raw = self._file.readline()
        if raw.find(b"\r", 0, -2) < 0:
            return raw
        self._next = raw.splitlines(keepends=True)[::-1]
        return self._next.pop()


def _read_line(file: Lines) -> bytes:
    return file.readline()


def read_quoted(file: Lines) -> bytes:
    """Return all lines of a CSV record, in which a quoted cell may contain line breaks.

    An unclosed quote extends to the end of the file.
    """
    raw = file.readline()
    while raw.count(b'"') % 2 and (more := file.readline()):
        raw += more
    return raw


def read_sentence(file: Lines) -> bytes:
    """Return a CoNLL-U sentence with the blank lines around it, or `b""` at the end of the file."""
    raw, lines = b"", False
    while line := file.readline():
        raw += line
        if line.strip():
            lines = True
        elif lines:
            break
    return raw if lines else b""


def require_same_rows(shard: Shard, records: Sequence[Mapping[str, Any]] | None = None) -> None:
    """Raise an error if the records of a shard have changed since the corpus was split.

    For a Parquet file, `records` are the rows that were read now.
    """
    if records is None:
        with path_of(shard.path).open("rb") as file:
            file.seek(shard.start)
            digest = hashlib.sha256(file.read(shard.stop - shard.start)).hexdigest()[:16]
    else:
        digest = _describe_records(shard.start, [repr(record) for record in records])["digest"]
    if digest != shard.digest:
        raise InvalidInput(
            f"{shard.path} has changed since the run started (at line {shard.first_line}). "
            "Restore the file, or start over with --fresh."
        )


def _cut_parquet(path: str, records: int) -> Iterator[dict[str, Any]]:
    stored = open_parquet(path)
    start = 0
    for batch in stored.iter_batches(batch_size=records):
        for offset in range(0, len(batch), records):
            part = batch.slice(offset, records)
            yield _describe_records(start, [repr(record) for record in part.to_pylist()])
            start += len(part)


def _cut_hub(name: str, records: int) -> Iterator[dict[str, Any]]:
    stream, start = iter(open_stream(name)), 0
    while part := [repr(record) for record in islice(stream, records)]:
        yield _describe_records(start, part)
        start += len(part)


def _describe_records(start: int, records: list[str]) -> dict[str, Any]:
    digest = hashlib.sha256("\0".join(records).encode("utf-8", "surrogatepass"))
    return {
        "start": start,
        "stop": start + len(records),
        "first_line": start + 1,
        "rows": len(records),
        "digest": digest.hexdigest()[:16],
    }


def open_parquet(path: str) -> Any:
    """Open a Parquet file and read only its footer."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtra("pyarrow", "corpus") from error
    try:
        return pq.ParquetFile(parquet_source(path_of(path)))  # type: ignore[no-untyped-call]
    except (OSError, pa.ArrowInvalid) as error:
        raise InvalidInput(
            f"{path} is not a readable Parquet file ({error}). Check the file."
        ) from error


_CUTTERS: dict[str, Any] = {
    "text": partial(_cut_lines, read_record=_read_line),
    "jsonl": partial(_cut_lines, read_record=_read_line),
    "csv": partial(_cut_lines, read_record=read_quoted, header=True),
    "tsv": partial(_cut_lines, read_record=_read_line, header=True),
    "conllu": partial(_cut_lines, read_record=read_sentence),
    "parquet": _cut_parquet,
    "hub": _cut_hub,
}
