"""A corpus in shards: cut once, without keeping it in memory, and read shard by shard.

A shard is a range of rows that any worker can read without the rows before it: bytes of a text,
JSONL, CSV, TSV or CoNLL-U file, rows of a Parquet file or of a streamed Hugging Face data set. It
carries the hash of its rows, so that a corpus that has changed is noticed.
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
    """Where some rows of a corpus are."""

    number: int
    path: str
    format: str
    start: int  # the first byte, or the first row of a Parquet file or data set
    stop: int  # after the last
    first_line: int  # in the file, from 1
    rows: int
    digest: str
    prefix: str = ""  # of the ids that lines give: the file, if there are several

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


def cut_into_shards(source: str, rows: int) -> list[Shard]:
    """Reads a file, a folder of files or `hf:NAME` once; each shard has at most `rows` rows."""
    if rows < 1:
        raise InvalidInput(f"{rows} is out of range for the texts of a shard. Pass at least 1.")
    shards: list[Shard] = []
    files = _files(source)
    for path, kind in files:
        prefix = f"{Path(path).name}:" if len(files) > 1 else ""
        for part in _CUTTERS[kind](path, rows):
            shards.append(Shard(number=len(shards), path=path, format=kind, prefix=prefix, **part))
    if not shards:
        raise InvalidInput(f"{source} is empty. Pass a file with texts.")
    return shards


def _files(source: str) -> list[tuple[str, str]]:
    if source.startswith("hf:"):
        return [(source, "hub")]
    place = Path(source)
    if not place.exists():
        raise InvalidInput(f"{source} does not exist. Pass a file, a folder or hf:NAME.")
    files = sorted(place.iterdir()) if place.is_dir() else [place]
    for path in files:
        if path.suffix.lower() in COMPRESSED:
            raise InvalidInput(
                f"{path} is compressed. Unpack it first, because workers read from its middle."
            )
    if place.is_dir():
        files = [path for path in files if path.suffix.lower() in FORMATS]
        if not files:
            raise InvalidInput(f"{source} has no supported file. Use one of: {', '.join(FORMATS)}.")
    elif place.suffix.lower() == ".json":
        raise InvalidInput(
            f"{source} is JSON, and a corpus is read by lines. Write one object on each line of"
            " a .jsonl file."
        )
    return [(str(p.resolve()), FORMATS.get(p.suffix.lower(), "text")) for p in files]


def _cut_lines(
    path: str, rows: int, *, header: bool = False, read_row: Callable[[Lines], bytes]
) -> Iterator[dict[str, Any]]:
    """Ranges of bytes that end where a row ends, which may go over several lines."""
    with open(path, "rb") as opened:
        file, line, stop = Lines(opened), 1, 0
        if header:
            first_row = read_row(file)
            line, stop = line + len(first_row.splitlines()), len(first_row)
        while True:
            start, first, count, digest = stop, line, 0, hashlib.sha256()
            while count < rows and (raw := read_row(file)):
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
    """Lines of an open file. A line ends with LF, CRLF or CR, which are part of it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._next: list[bytes] = []  # last to first

    def readline(self) -> bytes:
        """Return the next line; nothing after the last."""
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
    """As many lines as an open quote needs; a quote that never closes ends with the file."""
    raw = file.readline()
    while raw.count(b'"') % 2 and (more := file.readline()):
        raw += more
    return raw


def read_sentence(file: Lines) -> bytes:
    """The lines of a CoNLL-U sentence and the blank ones around it; nothing if none is left."""
    raw, lines = b"", False
    while line := file.readline():
        raw += line
        if line.strip():
            lines = True
        elif lines:
            break
    return raw if lines else b""


def require_same_rows(shard: Shard, rows: Sequence[Mapping[str, Any]] | None = None) -> None:
    """Raises if a file was changed since it was cut; `rows` are those of a Parquet file."""
    if rows is None:
        with open(shard.path, "rb") as file:
            file.seek(shard.start)
            digest = hashlib.sha256(file.read(shard.stop - shard.start)).hexdigest()[:16]
    else:
        digest = _counted(shard.start, [repr(row) for row in rows])["digest"]
    if digest != shard.digest:
        raise InvalidInput(
            f"{shard.path} was changed while the run was reading it: the rows from line"
            f" {shard.first_line} are not what they were"
        )


def _cut_parquet(path: str, rows: int) -> Iterator[dict[str, Any]]:
    stored = open_parquet(path)
    start = 0
    for batch in stored.iter_batches(batch_size=rows):
        for offset in range(0, len(batch), rows):
            part = batch.slice(offset, rows)
            yield _counted(start, [repr(row) for row in part.to_pylist()])
            start += len(part)


def _cut_hub(name: str, rows: int) -> Iterator[dict[str, Any]]:
    stream, start = iter(open_stream(name)), 0
    while part := [repr(row) for row in islice(stream, rows)]:
        yield _counted(start, part)
        start += len(part)


def _counted(start: int, rows: list[str]) -> dict[str, Any]:
    digest = hashlib.sha256("\0".join(rows).encode("utf-8", "surrogatepass"))
    return {
        "start": start,
        "stop": start + len(rows),
        "first_line": start + 1,
        "rows": len(rows),
        "digest": digest.hexdigest()[:16],
    }


def open_parquet(path: str) -> Any:
    """A Parquet file, of which nothing but the footer has been read."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtra("pyarrow", "corpus") from error
    try:
        return pq.ParquetFile(path)  # type: ignore[no-untyped-call]
    except (OSError, pa.ArrowInvalid) as error:
        raise InvalidInput(f"{path} cannot be read as Parquet: {error}") from error


_CUTTERS: dict[str, Any] = {
    "text": partial(_cut_lines, read_row=_read_line),
    "jsonl": partial(_cut_lines, read_row=_read_line),
    "csv": partial(_cut_lines, read_row=read_quoted, header=True),
    "tsv": partial(_cut_lines, read_row=_read_line, header=True),
    "conllu": partial(_cut_lines, read_row=read_sentence),
    "parquet": _cut_parquet,
    "hub": _cut_hub,
}
