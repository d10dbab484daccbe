"""Read the records of a shard. A record is either a text with its name and options, or the reason
for skipping it.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from mixlens.datasets import conllu
from mixlens.datasets.examples import Tagged
from mixlens.datasets.hub import open_stream
from mixlens.datasets.object_storage import path_of
from mixlens.datasets.shards import (
    Lines,
    Shard,
    open_parquet,
    read_quoted,
    read_sentence,
    require_same_rows,
)
from mixlens.errors import InvalidInput
from mixlens.model.json_values import parse_json

TEXT_COLUMNS = ("text", "sentence", "content")
LONGEST_LINE = 10_000_000  # characters; a longer line is not a text


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The names of the columns to read. The default text column is `text`, `sentence` or
    `content`.
    """

    text: str | None = None
    id: str | None = None
    # Option of a measure (word, foil, label) → column that holds its value for each text.
    explain: Mapping[str, str] = field(default_factory=dict)
    target: str | None = None  # column with the target token: a position or a label
    tags: str | None = (
        None  # column with parts of speech, one for each word; words are split at spaces
    )


@dataclass(frozen=True, kw_only=True)
class TextRecord:
    """One text of a corpus."""

    line: int  # line number in the file, or record number in a table, from 1
    id: str
    text: str
    explain: Mapping[str, Any] = field(default_factory=dict)
    target: int | str | None = None
    tags: tuple[str, ...] | None = None
    # Character span of each tagged word. None means that words are split at spaces.
    words: tuple[tuple[int, int], ...] | None = None


@dataclass(frozen=True, kw_only=True)
class BadRecord:
    """A record that cannot be measured, with the reason."""

    line: int
    id: str
    reason: str


def rows_of(shard: Shard, columns: Columns) -> Iterator[TextRecord | BadRecord]:
    """Yield every record of a shard, in order."""
    if shard.format not in ("parquet", "hub"):
        require_same_rows(shard)
    for line, fields in _READERS[shard.format](shard):
        name = f"{shard.prefix}{line}"
        if isinstance(fields, str):
            yield BadRecord(line=line, id=name, reason=fields)
        elif isinstance(fields, Tagged):
            yield _tagged_row(line, name, fields, columns)
        else:
            yield _row(line, name, fields, columns)


def _tagged_row(line: int, name: str, sentence: Tagged, columns: Columns) -> TextRecord | BadRecord:
    """Return the record of a sentence with its words and tags."""
    record = _row(line, name, {"text": sentence.text}, columns)
    if isinstance(record, BadRecord):
        return record
    return replace(record, words=sentence.words, tags=sentence.tags)


def _row(
    line: int, name: str, fields: Mapping[str, Any], columns: Columns
) -> TextRecord | BadRecord:
    record_id = None if columns.id is None else fields.get(columns.id)
    if record_id is not None and _is_unicode(record_id):
        name = str(record_id)
    column_name = columns.text or next(
        (key for key in TEXT_COLUMNS if key in fields), TEXT_COLUMNS[0]
    )
    text = fields.get(column_name)
    column_names = [
        *columns.explain.values(),
        *filter(None, (columns.id, columns.target, columns.tags)),
    ]
    missing = [column for column in column_names if fields.get(column) is None]
    if column_name not in fields:
        reason = f"no column {column_name!r} among {', '.join(map(str, fields))}"
    elif text is None:
        reason = f"column {column_name!r} is empty"
    elif not isinstance(text, str):
        reason = f"column {column_name!r} holds {type(text).__name__} instead of text"
    elif not text.strip():
        reason = "empty"
    elif "\0" in text:
        reason = "NUL characters in the text, as in a file in UTF-16"
    elif missing:
        reason = f"column {missing[0]!r} is empty"
    elif unwritable := [column for column in column_names if not _is_unicode(fields[column])]:
        reason = f"column {unwritable[0]!r} is not valid Unicode (a lone surrogate)"
    else:
        explain = {key: fields[column] for key, column in columns.explain.items()}
        return TextRecord(
            line=line,
            id=name,
            text=text.strip(),
            explain=explain,
            target=None if columns.target is None else _target(fields[columns.target]),
            tags=None if columns.tags is None else _tags(fields[columns.tags]),
        )
    return BadRecord(line=line, id=name, reason=reason)


def _target(value: Any) -> int | str:
    """Return a target as an integer position if it looks like a number, or else as a token."""
    if re.fullmatch(r"-?\d{1,18}", str(value)):
        return int(value)
    return str(value)


def _tags(value: Any) -> tuple[str, ...]:
    """Return tags from a list, or from words separated by spaces."""
    return tuple(map(str, value) if isinstance(value, (list, tuple)) else str(value).split())


def _is_unicode(value: Any) -> bool:
    """Return whether UTF-8 can encode the text. Lone surrogates in JSON cannot be encoded."""
    parts = value if isinstance(value, (list, tuple)) else [value]
    return not any(re.search("[\ud800-\udfff]", str(part)) for part in parts)


def _lines(shard: Shard) -> Iterator[tuple[int, str | None, str]]:
    """Yield (line number, text, reason) for every line. If a line cannot be read, its text is None
    and the reason explains why.
    """
    with path_of(shard.path).open("rb") as opened:
        opened.seek(shard.start)
        file = Lines(opened)
        for number in range(shard.rows):
            raw = file.readline()
            if shard.start == 0 and number == 0:
                raw = raw.removeprefix(b"\xef\xbb\xbf")
            try:
                text = raw.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                yield shard.first_line + number, None, f"not UTF-8 (byte {error.start} of the line)"
                continue
            too_long = len(text) > LONGEST_LINE
            reason = f"longer than {LONGEST_LINE:,} characters" if too_long else ""
            yield shard.first_line + number, None if too_long else text, reason


Fields = tuple[int, Mapping[str, Any] | Tagged | str]
"""A line number, and its fields or the reason why there are none."""


def _text_fields(shard: Shard) -> Iterator[Fields]:
    for line, text, reason in _lines(shard):
        yield line, reason if text is None else dict.fromkeys(TEXT_COLUMNS[:1], text)


def _json_fields(shard: Shard) -> Iterator[Fields]:
    for line, text, reason in _lines(shard):
        if text is None:
            yield line, reason
            continue
        try:
            value = parse_json(text) if text.strip() else None
        except ValueError as error:
            yield line, f"not JSON: {error}"
        else:
            yield line, value if isinstance(value, dict) else "empty or not a JSON object"


def _table_fields(shard: Shard) -> Iterator[Fields]:
    header = _header(shard)
    for line, cells in _cells(shard):
        if isinstance(cells, str):
            yield line, cells
        elif len(cells) != len(header):
            yield line, f"{len(cells)} columns, but the header has {len(header)}"
        else:
            yield line, dict(zip(header, cells, strict=True))


def _header(shard: Shard) -> list[str]:
    with path_of(shard.path).open("rb") as opened:
        file = Lines(opened)
        raw = read_quoted(file) if shard.format == "csv" else file.readline()
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    try:
        names = _split(raw.decode("utf-8"), shard.format)
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(
            f"{shard.path}: the first line does not name columns ({error}). Add a header line."
        ) from None
    if duplicates := {name for name in names if names.count(name) > 1}:
        raise InvalidInput(
            f"{shard.path}: column {min(duplicates)!r} occurs more than once. Rename one of them."
        )
    return names


def _cells(shard: Shard) -> Iterator[tuple[int, list[str] | str]]:
    with path_of(shard.path).open("rb") as opened:
        opened.seek(shard.start)
        file = Lines(opened)
        line = shard.first_line
        for _ in range(shard.rows):
            raw = read_quoted(file) if shard.format == "csv" else file.readline()
            try:
                yield line, _split(raw.decode("utf-8"), shard.format)
            except UnicodeDecodeError as error:
                yield line, f"not UTF-8 (byte {error.start} of the row)"
            except csv.Error as error:
                yield line, f"not CSV: {error}"
            line += len(raw.splitlines())


def _split(line_text: str, kind: str) -> list[str]:
    line_text = line_text.rstrip("\r\n")
    if kind == "tsv":
        return line_text.split("\t")
    cells = list(csv.reader(io.StringIO(line_text, newline=""), strict=True))
    return cells[0] if cells else []


def _conllu_fields(shard: Shard) -> Iterator[Fields]:
    with path_of(shard.path).open("rb") as opened:
        opened.seek(shard.start)
        file = Lines(opened)
        line = shard.first_line
        for _ in range(shard.rows):
            raw = read_sentence(file)
            blank = len(raw) - len(raw.lstrip(b"\r\n"))
            first = line + len(raw[:blank].splitlines())
            try:
                lines = [part.decode("utf-8") for part in raw.strip().splitlines()]
                yield first, conllu.parse_sentence(str(first), lines)
            except UnicodeDecodeError:
                yield first, "not UTF-8"
            except InvalidInput as error:
                yield first, str(error)
            line += len(raw.splitlines())


def _parquet_fields(shard: Shard) -> Iterator[Fields]:
    """Yield records from the Parquet row groups that overlap with the shard."""
    stored, before = open_parquet(shard.path), 0
    records: list[dict[str, Any]] = []
    for group in range(stored.num_row_groups):
        count = stored.metadata.row_group(group).num_rows
        start, stop = max(shard.start - before, 0), min(shard.stop - before, count)
        if start < stop:
            records += stored.read_row_group(group).slice(start, stop - start).to_pylist()
        before += count
    require_same_rows(shard, records)
    yield from enumerate(records, shard.first_line)


def _hub_fields(shard: Shard) -> Iterator[Fields]:
    records = islice(open_stream(shard.path, skip=shard.start), shard.rows)
    yield from ((shard.start + n + 1, record) for n, record in enumerate(records))


_READERS: dict[str, Any] = {
    "text": _text_fields,
    "jsonl": _json_fields,
    "csv": _table_fields,
    "tsv": _table_fields,
    "conllu": _conllu_fields,
    "parquet": _parquet_fields,
    "hub": _hub_fields,
}
