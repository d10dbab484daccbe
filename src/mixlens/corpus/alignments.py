"""Parallel text with gold word alignments, in the forms in which it is passed around.

* Links, one sentence a line: `0-1 1-2` (Pharaoh), possible ones as `0p1`, `0?1`, `0-1p` or `0-1?`;
  `.talp` files count words from 1.
* NAACL / WPT: one link a line, `0001 3 4 S` (sentence, source word, target word, S or P), counted
  from 1; word 0 is "no word", and a link to it is left out, as the shared task's scorer does
  without null alignments.
* Text: two files line by line, or one with both sides on a line, parted by ` ||| ` or a tab. Words
  are parted by blanks. `<s snum=1> … </s>` around a sentence is taken off.

Where a file does not say from where words are counted, the links do: a word 0 means from 0, a word
with the number of the sentence's length means from 1. Where neither occurs, `base` has to be named.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mixlens.corpus.examples import Aligned
from mixlens.errors import InvalidInput

PathLike = str | os.PathLike[str]

_LINK = re.compile(r"(\d+)([-p?])(\d+)([psPS?]?)")
_NAACL = re.compile(r"(\d+)\s+(\d+)\s+(\d+)(?:\s+([SP]))?(?:\s+[\d.]+)?")
_SENTENCE = re.compile(r"<s\s+snum=\"?(\d+)\"?>(.*)</s>")
_GOLD = (
    ".gold",
    ".talp",
    ".naacl",
    ".wpt",
    ".wa",
    ".pharaoh",
    ".align",
    ".alignment",
    ".nonullalign",
)
_BOTH = (".src-tgt", ".both", ".tsv")


@dataclass(frozen=True)
class _Links:
    """The links of one sentence as the file numbers them."""

    place: str  # file:line
    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]

    @property
    def all(self) -> frozenset[tuple[int, int]]:
        return self.sure | self.possible


def read_alignments(
    path: PathLike,
    *,
    source: PathLike | None = None,
    target: PathLike | None = None,
    gold: PathLike | None = None,
    base: int | None = None,
) -> list[Aligned]:
    """Sentence pairs with their gold links, from a folder, or from named files.

    `path` is a folder (then the other names are of files in it, or the endings `source="de",
    target="en"`), or a file with both sides of the text (with `gold`), or a file of links (with
    `source` and `target`). A folder with one text and one file of links needs no names; which of
    two files is the source is read from the folder's name (`alignment_de_en`). `base` is the number
    of the first word.
    """
    if base not in (None, 0, 1):
        raise InvalidInput(f"base={base!r}: words are counted from 0 or from 1")
    given = Path(path)
    if not given.exists():
        raise InvalidInput(f"there is no {given}")
    texts, links = (
        _files_of_folder(given, source, target, gold)
        if given.is_dir()
        else _files(given, source, target, gold)
    )
    read = [_text_lines(file) for file in texts]
    sides = _split(texts[0], read[0]) if len(read) == 1 else _joined(texts, read)
    found, counted_from = _links(links, len(sides))
    start = (
        base
        if base is not None
        else counted_from
        if counted_from is not None
        else _base(links, found, sides)
    )
    return [_example(pair, link, start) for pair, link in zip(sides, found, strict=True)]


# -------------------------------------------------------------------------------------- which files


def _files(
    path: Path, source: PathLike | None, target: PathLike | None, gold: PathLike | None
) -> tuple[list[Path], Path]:
    if gold is not None and source is None and target is None:
        return [path], Path(gold)
    if gold is None and source is not None and target is not None:
        return [Path(source), Path(target)], path
    raise InvalidInput(
        f"{path} is a file: name gold= where it holds both sides of the text, or source= and"
        " target= where it holds links"
    )


def _files_of_folder(
    folder: Path, source: PathLike | None, target: PathLike | None, gold: PathLike | None
) -> tuple[list[Path], Path]:
    files = sorted(file for file in folder.iterdir() if file.is_file())
    links = (
        _named(folder, files, gold)
        if gold is not None
        else _only(folder, files, _GOLD, "file of links", "gold")
    )
    if (source is None) != (target is None):
        raise InvalidInput("name both source= and target=, or neither")
    if source is not None and target is not None:
        return [_named(folder, files, source), _named(folder, files, target)], links
    if any(file.suffix in _BOTH for file in files):
        return [_only(folder, files, _BOTH, "text", "source")], links
    languages = re.findall(
        r"(?:^|[_.-])([a-z]{2})[_-]?([a-z]{2})(?=$|[_.-])", folder.resolve().name
    )
    if len(languages) != 1:
        raise InvalidInput(
            f"the name of {folder} does not say which language is the source: name source= and"
            " target="
        )
    return [_named(folder, files, language) for language in languages[0]], links


def _named(folder: Path, files: Sequence[Path], name: PathLike) -> Path:
    """A file by its name, or by its ending; of several with that ending the one with the shortest
    name.
    """
    ending = [file for file in files if file.suffix == f".{name}"]
    for file in (folder / name, Path(name)):
        if file.is_file():
            return file
    if not ending:
        raise InvalidInput(f"there is no {folder / name}, and no file in {folder} ends in .{name}")
    return min(ending, key=lambda file: (len(file.name), file.name))


def _only(
    folder: Path, files: Sequence[Path], endings: Sequence[str], what: str, option: str
) -> Path:
    found = [file for file in files if file.suffix in endings]
    if len(found) != 1:
        seen = ", ".join(file.name for file in found) or "none"
        raise InvalidInput(
            f"{folder} should have one {what} ({', '.join(endings)}), but has: {seen}. Name"
            f" {option}="
        )
    return found[0]


# --------------------------------------------------------------------------------------------- text


def _lines(file: Path) -> list[str]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise InvalidInput(f"there is no {file}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{file}: not UTF-8 ({error.reason} at byte {error.start}); convert it first"
        ) from error
    return text.removesuffix("\n").split("\n") if text else []


def _text_lines(file: Path) -> list[str]:
    found = []
    for number, line in enumerate(_lines(file), 1):
        marked = _SENTENCE.fullmatch(line.strip())
        if marked and int(marked[1]) != number:
            raise InvalidInput(f"{file}:{number}: sentence {marked[1]} stands in line {number}")
        found.append(marked[2] if marked else line)
    return found


_Pair = tuple[str, tuple[str, ...], tuple[str, ...]]  # place, source words, target words


def _split(file: Path, lines: Sequence[str]) -> list[_Pair]:
    found = []
    for number, line in enumerate(lines, 1):
        parts = re.split(r"\s\|\|\|\s", line) if "|||" in line else line.split("\t")
        if len(parts) != 2:
            raise InvalidInput(
                f"{file}:{number}: source and target parted by ' ||| ' or a tab are needed, not"
                f" {len(parts)} parts"
            )
        found.append(_pair(f"{file}:{number}", *parts))
    return found


def _joined(files: Sequence[Path], sides: Sequence[Sequence[str]]) -> list[_Pair]:
    if len(sides[0]) != len(sides[1]):
        raise InvalidInput(f"{files[0]} has {len(sides[0])} lines, {files[1]} has {len(sides[1])}")
    return [
        _pair(f"{files[0]}:{number}", *pair)
        for number, pair in enumerate(zip(*sides, strict=True), 1)
    ]


def _pair(place: str, source: str, target: str) -> _Pair:
    words = tuple(source.split()), tuple(target.split())
    for side, found in zip(("source", "target"), words, strict=True):
        if not found:
            raise InvalidInput(f"{place}: the {side} has no word")
    return place, *words


# -------------------------------------------------------------------------------------------- links


def _links(file: Path, sentences: int) -> tuple[list[_Links], int | None]:
    """The links of every sentence, and the number of the first word where the format says it."""
    lines = _lines(file)
    filled = [line for line in lines if line.strip()]
    if filled and _NAACL.fullmatch(filled[0].strip()):
        return _naacl(file, lines, sentences), 1
    if len(lines) != sentences:
        raise InvalidInput(f"{file} has {len(lines)} lines of links for {sentences} sentences")
    return [_line_of_links(f"{file}:{number}", line) for number, line in enumerate(lines, 1)], (
        1 if file.suffix == ".talp" else None
    )


def _line_of_links(place: str, line: str) -> _Links:
    sure: set[tuple[int, int]] = set()
    possible: set[tuple[int, int]] = set()
    for word in line.split():
        link = _LINK.fullmatch(word)
        if link is None:
            raise InvalidInput(
                f"{place}: {word!r} is no link such as 3-4 (sure), 3p4, 3?4 or 3-4p (possible)"
            )
        doubtful = link[2] != "-" or link[4] in ("p", "P", "?")
        (possible if doubtful else sure).add((int(link[1]), int(link[3])))
    return _Links(place, frozenset(sure), frozenset(possible))


def _naacl(file: Path, lines: Iterable[str], sentences: int) -> list[_Links]:
    sure: list[set[tuple[int, int]]] = [set() for _ in range(sentences)]
    possible: list[set[tuple[int, int]]] = [set() for _ in range(sentences)]
    places = [f"{file} (no line)"] * sentences
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        link = _NAACL.fullmatch(line.strip())
        if link is None:
            raise InvalidInput(f"{file}:{number}: {line.strip()!r} is no link such as '0001 3 4 S'")
        sentence = int(link[1]) - 1
        if not 0 <= sentence < sentences:
            raise InvalidInput(
                f"{file}:{number}: sentence {link[1]}, but the text has 1 to {sentences}"
            )
        places[sentence] = f"{file}:{number}"
        pair = int(link[2]), int(link[3])
        if 0 not in pair:
            (possible if link[4] == "P" else sure)[sentence].add(pair)
    return [
        _Links(*parts)
        for parts in zip(places, map(frozenset, sure), map(frozenset, possible), strict=True)
    ]


def _base(file: Path, links: Sequence[_Links], pairs: Sequence[_Pair]) -> int:
    if any(0 in link for found in links for link in found.all):
        return 0
    for found, (_, source, target) in zip(links, pairs, strict=True):
        if any(i == len(source) or j == len(target) for i, j in found.all):
            return 1
    if not any(found.all for found in links):
        raise InvalidInput(f"{file} has no link")
    raise InvalidInput(
        f"{file}: no link shows whether words are counted from 0 or from 1: name base="
    )


def _example(pair: _Pair, links: _Links, base: int) -> Aligned:
    place, source, target = pair
    for i, j in sorted(links.all):
        if not (base <= i < len(source) + base and base <= j < len(target) + base):
            raise InvalidInput(
                f"{links.place}: link {i}-{j} is outside the sentence ({len(source)} and"
                f" {len(target)} words, from {base}; {place})"
            )
    sure, every = (
        frozenset((i - base, j - base) for i, j in chosen) for chosen in (links.sure, links.all)
    )
    return Aligned(
        name=place,
        text=" ".join(source),
        pair=" ".join(target),
        source=source,
        target=target,
        sure=sure,
        possible=every,
    )
