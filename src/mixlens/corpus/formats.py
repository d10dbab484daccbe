"""Which reader a file or a folder belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from mixlens.corpus import classes, targets, word_lists
from mixlens.corpus.examples import Example
from mixlens.corpus.files import Refused, attempted, objects_of, table_of
from mixlens.errors import InvalidInput

Rows = Iterator[Example | Refused]
SPLITS = ("dev", "dev_matched", "validation", "valid", "val")  # which file of a folder with several splits is read


def read(path: Path, kind: str | None = None) -> Rows:
    """The rows of a file or a folder."""
    return _folder(path, kind) if path.is_dir() else _file(path, kind)


def _file(path: Path, kind: str | None) -> Rows:
    ending = "".join(path.suffixes).lower().removesuffix(".gz")
    for known, reader in ((".jsonl", _objects), (".csv", _table), (".tsv", _table)):
        if ending.endswith(known):
            return reader(path)
    raise InvalidInput(f"{path}: not a known ending")


def _folder(path: Path, kind: str | None) -> Rows:
    files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
    objects = [file for file in files if file.name.endswith(".jsonl")]
    for file in objects:
        yield from _objects(file)
    if not objects:
        yield from _file(_split(path, [file for file in files if file.name.endswith(".tsv")]), kind)


def _split(folder: Path, files: list[Path]) -> Path:
    """The one file to read of a folder: its only one, or its development split."""
    by_stem = {file.name.split(".")[0]: file for file in files}
    chosen = files if len(files) == 1 else [by_stem[split] for split in SPLITS if split in by_stem]
    if not chosen:
        raise InvalidInput(f"{folder} holds {', '.join(file.name for file in files) or 'no data file'}: name the file to read")
    return chosen[0]


def _objects(path: Path) -> Rows:
    """JSONL: the first object says what it is."""
    first = next((row for _, row in objects_of(path) if not isinstance(row, Refused)), {})
    readers: list[tuple[Callable[..., bool], Callable[[Path], Rows]]] = [(word_lists.recognises, word_lists.read)]
    for recognises, reader in readers:
        if recognises(first):
            return reader(path)
    parse = targets.agreement if targets.recognises(first) else classes.from_fields
    return (attempted(name, row, parse) for name, row in objects_of(path))


def _table(path: Path) -> Rows:
    """CSV or TSV: the header says what it is."""
    rows = table_of(path)
    header = [cell.strip().lower() for cell in rows[0][1]] if rows else []
    if not targets.recognises(dict.fromkeys(header)):
        return classes.read(path)
    return (
        attempted(name, cells, lambda name, cells: targets.agreement(name, classes.fields_of(header, cells)))
        for name, cells in rows[1:]
    )
