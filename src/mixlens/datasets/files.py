"""Read the lines of UTF-8 text files, plain or gzipped."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from mixlens.datasets.examples import Example
from mixlens.errors import InvalidInput
from mixlens.model.json_values import parse_json

Row = TypeVar("Row")


@dataclass(frozen=True)
class Refused:
    """A record that could not be read, with the reason."""

    name: str
    reason: str


def text_of(path: Path) -> str:
    """Return the whole text of a file."""
    try:
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{path} is not UTF-8 text (byte {error.start}). Convert it, for example with iconv"
            " -t UTF-8."
        ) from error
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidInput(f"{path} cannot be read ({error}). Check the file.") from error
    if "\0" in text:
        raise InvalidInput(f"{path} is not a text file; it contains null bytes. Pass a text file.")
    return text


def all_lines_of(path: Path) -> list[str]:
    """Return the lines of a file, including blank ones. A line ends with LF, CRLF or CR."""
    text = text_of(path).replace("\r\n", "\n").replace("\r", "\n")
    return (
        text.removesuffix("\n").split("\n") if text else []
    )  # splitlines() also splits inside texts


def lines_of(path: Path) -> list[tuple[str, str]]:
    """Return (name, line) for every line that is not blank. The name is `file:number`, with line
    numbers from 1.
    """
    lines = enumerate(all_lines_of(path), 1)
    return [(f"{path.name}:{number}", line) for number, line in lines if line.strip()]


def objects_of(path: Path) -> Iterator[tuple[str, Any]]:
    """Return (name, object) for every line of a JSONL file. A line that is not a JSON object is
    returned as `Refused`.
    """
    for name, line in lines_of(path):
        try:
            parsed = parse_json(line)
            yield name, parsed if isinstance(parsed, dict) else Refused(name, "not a JSON object")
        except ValueError as error:
            yield name, Refused(name, f"not JSON: {error}")


def table_of(path: Path) -> list[tuple[str, list[str] | Refused]]:
    """Return (name, cells) for every row of a table.

    Cells are separated by commas with CSV quotes, or by tabs without quotes, as in GLUE.
    """
    if not path.name.lower().removesuffix(".gz").endswith(".csv"):
        return [(name, line.split("\t")) for name, line in lines_of(path)]
    reader = csv.reader(io.StringIO(text_of(path), newline=""), strict=True)
    rows: list[tuple[str, list[str] | Refused]] = []
    while True:
        name = f"{path.name}:{reader.line_num + 1}"  # a record may span several lines
        try:
            cells = next(reader)
        except StopIteration:
            return rows
        except csv.Error as error:
            rows.append((name, Refused(name, f"not CSV: {error}")))
        else:
            if any(cell.strip() for cell in cells):
                rows.append((name, cells))


def parse_record(
    name: str, record: Row | Refused, parse: Callable[[str, Row], Example]
) -> Example | Refused:
    """Return the parsed record, or a `Refused` with the reason for skipping the record."""
    if isinstance(record, Refused):
        return record
    try:
        return parse(name, record)
    except InvalidInput as error:
        return Refused(name, str(error))
