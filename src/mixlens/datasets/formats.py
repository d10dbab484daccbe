"""Choose the reader of a file or a folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from mixlens.datasets import conllu, evidence, evidence_prompts, linzen, objects, plain, tables
from mixlens.datasets.examples import Example
from mixlens.datasets.files import Refused, lines_of
from mixlens.errors import InvalidInput

Rows = Iterable[Example | Refused]
LINKS = (
    ".talp",
    ".gold",
    ".naacl",
    ".wpt",
    ".wa",
    ".pharaoh",
    ".align",
    ".alignment",
    ".nonullalign",
    ".src-tgt",
)
TABLES = (".csv", ".tsv")
NOT_TEXT = (".json", ".xml", ".htm", ".html", ".yaml", ".yml")
SPLITS = (
    "dev",
    "dev_matched",
    "validation",
    "valid",
    "val",
)  # which split of a folder is read


def read(path: Path, kind: str | None = None) -> Rows:
    """Return the records of a file or a folder."""
    return _folder(path, kind) if path.is_dir() else _file(path, kind)


def _file(path: Path, kind: str | None) -> Rows:
    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    if ending == ".jsonl":
        return objects.read(path)
    if ending == ".json" and kind in (None, "evidence"):
        return evidence_prompts.read(path)
    if ending in TABLES or kind == "classification":
        return tables.read(path)
    if ending == ".conllu":
        return conllu.read(path)
    if ending in (".text", ".gold") and all(
        path.with_suffix(each).exists() for each in (".text", ".gold")
    ):
        return linzen.read(path.with_suffix(".text"))
    if ending in LINKS or kind == "alignment":
        return _read_aligned(path)
    if ending in NOT_TEXT and kind != "text":
        raise InvalidInput(f"Unsupported format {ending!r} of {path}. Use .jsonl, .csv or .tsv.")
    if kind is None and _is_table(path):
        return tables.read(path)
    return plain.read(path)


def _folder(path: Path, kind: str | None) -> Rows:
    files = sorted(
        file for file in path.iterdir() if file.is_file() and not file.name.startswith(".")
    )
    for file in files:
        if file.suffix == ".text" and file.with_suffix(".gold").exists():
            return linzen.read(file)
    if kind == "alignment" or any(file.suffix in LINKS for file in files):
        return _read_aligned(path)
    for ending in (".jsonl", ".conllu"):
        matches = [file for file in files if file.name.removesuffix(".gz").endswith(ending)]
        if matches:
            return _all(matches, kind)
    tables = [file for file in files if file.name.removesuffix(".gz").endswith(TABLES)]
    several = tables or sorted(path.glob("*/*.csv"))
    if several and all(evidence.is_table(file) for file in several):
        return _all(several, kind)
    texts = [
        file
        for file in files
        if file.name.removesuffix(".gz").endswith((".txt", ".raw", ".tokens"))
    ]
    return _file(_split(path, tables or texts or files), kind)


def _all(files: list[Path], kind: str | None) -> Iterator[Example | Refused]:
    for file in files:
        yield from _file(file, kind)


def _split(folder: Path, files: list[Path]) -> Path:
    """Return the only data file in a folder or, if there are several files, the development
    split.
    """
    splits = ([file for file in files if file.name.split(".")[0] == split] for split in SPLITS)
    split_files = files if len(files) == 1 else next(filter(None, splits), [])
    if len(split_files) != 1:
        raise InvalidInput(
            f"{folder} contains {', '.join(file.name for file in files) or 'no file'}. Pass one"
            " file."
        )
    return split_files[0]


def _is_table(path: Path) -> bool:
    """Return whether a file starts with a header that names a text column."""
    first = next(iter(lines_of(path)), ("", ""))[1]
    return "\t" in first and tables.has_text(tables.header_of(first.split("\t")))


def _read_aligned(path: Path) -> Rows:
    from mixlens.datasets.alignments import read_alignments

    return read_alignments(path)
