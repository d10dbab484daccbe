"""Read parallel text with gold word alignments in the common formats.

* Links in Pharaoh format, one sentence per line: `0-1 1-2`, possible links as `0p1`, `0?1`, `0-1p`
  or `0-1?`. `.talp` files count words from 1.
* Links in NAACL / WPT format, one per line: `0001 3 4 S` (sentence, source word, target word, S or
  P), counted from 1. Word 0 means "no word". Links to it are skipped, as in the scorer of the
  shared task.
* Text: two parallel files, or one file with both sides on the same line, separated by ` ||| ` or a
  tab. Words are separated by spaces. `<s snum=1> … </s>` around a sentence is removed.

If the format does not define the number of the first word, mixlens infers it from the links: a word
0 means counting from 0, and a word number equal to the sentence length means counting from 1. If
neither occurs, pass `base`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mixlens.datasets.examples import Aligned
from mixlens.datasets.files import all_lines_of
from mixlens.errors import InvalidInput

PathLike = str | os.PathLike[str]

_SENTENCE = re.compile(r"<s\s+snum=\"?(\d{1,9})\"?>(.*)</s>")
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


def read_alignments(
    path: PathLike,
    *,
    source: PathLike | None = None,
    target: PathLike | None = None,
    gold: PathLike | None = None,
    base: int | None = None,
) -> list[Aligned]:
    """Return sentence pairs with their gold links, from a folder or from named files.

    `path` is a folder, a file with both sides of the text (pass `gold` too), or a file of links
    (pass `source` and `target` too). In a folder, the other arguments are file names, or endings
    such as `source="de", target="en"`. You can omit them if the folder has only one parallel text
    and one file of links; if the text is split into two files, the folder name (such as
    `alignment_de_en`) ends with the source and target languages. `base` is the number of the first
    word.
    """
    if base not in (None, 0, 1):
        raise InvalidInput(
            f"base={base!r} is not supported. Pass 0 or 1, the number of the first word."
        )
    folder_or_file = Path(path)
    if not folder_or_file.exists():
        raise InvalidInput(f"{folder_or_file} does not exist. Pass a file or a folder.")
    texts, links = (
        _files_of_folder(folder_or_file, source, target, gold)
        if folder_or_file.is_dir()
        else _files(folder_or_file, source, target, gold)
    )
    line_lists = [_text_lines(file) for file in texts]
    sides = (
        _split(texts[0], line_lists[0]) if len(line_lists) == 1 else _join_sides(texts, line_lists)
    )
    aligned, counted_from = read_links(links, len(sides))
    if base is None:
        base = _base(links, aligned, sides) if counted_from is None else counted_from
    return [_example(pair, link, base) for pair, link in zip(sides, aligned, strict=True)]


def _files(
    path: Path, source: PathLike | None, target: PathLike | None, gold: PathLike | None
) -> tuple[list[Path], Path]:
    if gold is not None and source is None and target is None:
        return [path], Path(gold)
    if gold is None and source is not None and target is not None:
        return [Path(source), Path(target)], path
    raise InvalidInput(
        f"{path} is one file. Pass the other files too, or the folder that holds them."
    )


def _files_of_folder(
    folder: Path, source: PathLike | None, target: PathLike | None, gold: PathLike | None
) -> tuple[list[Path], Path]:
    files = sorted(file for file in folder.iterdir() if file.is_file())
    links = (
        _find_file(folder, files, gold)
        if gold is not None
        else _only(folder, files, _GOLD, "file of links", "gold")
    )
    if (source is None) != (target is None):
        raise InvalidInput("Only one of source and target was passed. Pass both or neither.")
    if source is not None and target is not None:
        return [_find_file(folder, files, source), _find_file(folder, files, target)], links
    if any(file.suffix in _BOTH for file in files):
        return [_only(folder, files, _BOTH, "text", "source")], links
    languages = re.findall(
        r"(?:^|[_.-])([a-z]{2})[_-]?([a-z]{2})(?=$|[_.-])", folder.resolve().name
    )
    if len(languages) != 1:
        raise InvalidInput(
            f"The name of {folder} does not show which language is the source. Pass "
            "the source and the target language, or end the folder name with both, as in de_en."
        )
    return [_find_file(folder, files, language) for language in languages[0]], links


def _find_file(folder: Path, files: Sequence[Path], name: PathLike) -> Path:
    """Return the file called `name`, or else the file with the shortest name that ends in
    `.name`.
    """
    ending = [file for file in files if file.suffix == f".{name}"]
    for file in (folder / name, Path(name)):
        if file.is_file():
            return file
    if not ending:
        raise InvalidInput(
            f"{folder / name} does not exist, and no file in {folder} ends in .{name}. Pass "
            "an existing file."
        )
    return min(ending, key=lambda file: (len(file.name), file.name))


def _only(
    folder: Path, files: Sequence[Path], endings: Sequence[str], what: str, option: str
) -> Path:
    fitting = [file for file in files if file.suffix in endings]
    if len(fitting) != 1:
        file_names = ", ".join(file.name for file in fitting) or "none"
        raise InvalidInput(
            f"{folder} needs one {what} ({', '.join(endings)}), but contains {file_names}. "
            f"Pass {option}=."
        )
    return fitting[0]


def _text_lines(file: Path) -> list[str]:
    lines = []
    for number, line in enumerate(sentences_of(file), 1):
        marked = _SENTENCE.fullmatch(line.strip())
        if marked and int(marked[1]) != number:
            raise InvalidInput(
                f"{file}:{number}: the sentence has the number {marked[1]}, but is on line "
                f"{number}. Add the missing lines."
            )
        lines.append(marked[2] if marked else line)
    return lines


_Pair = tuple[str, tuple[str, ...], tuple[str, ...]]  # place, source words, target words


def _split(file: Path, lines: Sequence[str]) -> list[_Pair]:
    pairs = []
    for number, line in enumerate(lines, 1):
        parts = re.split(r"\s\|\|\|\s", line) if "|||" in line else line.split("\t")
        if len(parts) != 2:
            raise InvalidInput(
                f"{file}:{number}: the line has {len(parts)} parts. Separate source and "
                "target by ' ||| ' or a tab."
            )
        pairs.append(_pair(f"{file}:{number}", *parts))
    return pairs


def _join_sides(files: Sequence[Path], sides: Sequence[Sequence[str]]) -> list[_Pair]:
    if len(sides[0]) != len(sides[1]):
        raise InvalidInput(
            f"{files[0]} has {len(sides[0])} lines, but {files[1]} has {len(sides[1])}. Pass files "
            "with matching lines."
        )
    return [
        _pair(f"{files[0]}:{number}", *pair)
        for number, pair in enumerate(zip(*sides, strict=True), 1)
    ]


def _pair(place: str, source: str, target: str) -> _Pair:
    words = tuple(source.split()), tuple(target.split())
    for side, side_words in zip(("source", "target"), words, strict=True):
        if not side_words:
            raise InvalidInput(f"{place}: the {side} is empty. Remove the sentence from all files.")
    return place, *words


def _base(file: Path, links: Sequence[Links], pairs: Sequence[_Pair]) -> int:
    if any(0 in link for sentence in links for link in sentence.all):
        return 0
    for sentence, (_, source, target) in zip(links, pairs, strict=True):
        if any(i == len(source) or j == len(target) for i, j in sentence.all):
            return 1
    if not any(sentence.all for sentence in links):
        raise InvalidInput(f"{file} has no link. Pass a file with word links.")
    raise InvalidInput(
        f"{file}: the links do not show whether words are counted from 0 or from 1. Pass base 0 or"
        " 1, the number of the first word."
    )


def _example(pair: _Pair, links: Links, base: int) -> Aligned:
    place, source, target = pair
    for i, j in sorted(links.all):
        if not (base <= i < len(source) + base and base <= j < len(target) + base):
            raise InvalidInput(
                f"{links.place}: link {i}-{j} is outside the sentence ({len(source)} and"
                f" {len(target)} words, from {base}; {place})"
            )
    sure, every = (
        frozenset((i - base, j - base) for i, j in links_of_kind)
        for links_of_kind in (links.sure, links.all)
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


_LINK = re.compile(r"(\d{1,9})([-p?])(\d{1,9})([psPS?]?)")
_NAACL = re.compile(r"(\d{1,9})\s+(\d{1,9})\s+(\d{1,9})(?:\s+([SP]))?(?:\s+[\d.]+)?")


@dataclass(frozen=True)
class Links:
    """The alignment links of one sentence. Words are numbered as in the file, from 0 or from 1."""

    place: str  # file:line
    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]

    @property
    def all(self) -> frozenset[tuple[int, int]]:
        """Return sure and possible links."""
        return self.sure | self.possible


def read_links(file: Path, sentences: int) -> tuple[list[Links], int | None]:
    """Return the links of every sentence, and the number of the first word.

    The number is None if the format does not define it.
    """
    lines = sentences_of(file)
    filled = [line for line in lines if line.strip()]
    if filled and _NAACL.fullmatch(filled[0].strip()):
        return _naacl(file, lines, sentences), 1
    if len(lines) != sentences:
        raise InvalidInput(
            f"{file} has {len(lines)} lines of links for {sentences} sentences. Pass files "
            "with one line per sentence."
        )
    return [_line_of_links(f"{file}:{number}", line) for number, line in enumerate(lines, 1)], (
        1 if file.suffix == ".talp" else None
    )


def _line_of_links(place: str, line: str) -> Links:
    sure: set[tuple[int, int]] = set()
    possible: set[tuple[int, int]] = set()
    for word in line.split():
        link = _LINK.fullmatch(word)
        if link is None:
            raise InvalidInput(
                f"{place}: {word!r} is not a link. Write 3-4 for a sure link, and 3p4, 3?4 or "
                "3-4p for a possible one."
            )
        is_possible = link[2] != "-" or link[4] in ("p", "P", "?")
        (possible if is_possible else sure).add((int(link[1]), int(link[3])))
    return Links(place, frozenset(sure), frozenset(possible))


def _naacl(file: Path, lines: Iterable[str], sentences: int) -> list[Links]:
    sure: list[set[tuple[int, int]]] = [set() for _ in range(sentences)]
    possible: list[set[tuple[int, int]]] = [set() for _ in range(sentences)]
    places = [f"{file} (no line)"] * sentences
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        link = _NAACL.fullmatch(line.strip())
        if link is None:
            raise InvalidInput(
                f"{file}:{number}: {line.strip()!r} is not a link. Write it as '0001 3 4 S'."
            )
        sentence = int(link[1]) - 1
        if not 0 <= sentence < sentences:
            raise InvalidInput(
                f"{file}:{number}: sentence {link[1]} is out of range (1–{sentences}). Pass "
                "the text of these links."
            )
        places[sentence] = f"{file}:{number}"
        pair = int(link[2]), int(link[3])
        if 0 not in pair:
            (possible if link[4] == "P" else sure)[sentence].add(pair)
    return [
        Links(*parts)
        for parts in zip(places, map(frozenset, sure), map(frozenset, possible), strict=True)
    ]


def sentences_of(file: Path) -> list[str]:
    """Return the lines of a text file, including blank ones."""
    if not file.is_file():
        raise InvalidInput(f"{file} does not exist. Pass a file with word links.")
    return all_lines_of(file)
