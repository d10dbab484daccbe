"""The pages of the documentation: their blocks, their sections, and where they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import mixlens

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
MEASURES = ROOT / "docs" / "measures"
BUNDLED = Path(mixlens.__file__).parent / "bundled"

needs_bundled = pytest.mark.skipif(
    not (BUNDLED / "masked" / "config.json").exists(),
    reason=f"NOT RUN: the pages use the bundled model, and there is none in {BUNDLED / 'masked'}",
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page; `line` is the number of its first line of content, from 1."""

    kind: str
    line: int
    content: str


def blocks(text: str) -> list[Block]:
    blocks_of_page: list[Block] = []
    lines = text.splitlines()
    start, kind = -1, ""
    for number, line in enumerate(lines, 1):
        if not line.startswith("```"):
            continue
        if start < 0:
            start, kind = number + 1, line[3:].strip()
        else:
            blocks_of_page.append(
                Block(kind, start, "".join(f"{each}\n" for each in lines[start - 1 : number - 1]))
            )
            start = -1
    assert start < 0, f"the block that starts in line {start} has no end"
    return blocks_of_page


def ids(pages: list[Path]) -> list[str]:
    return [page.relative_to(ROOT).as_posix() for page in pages]


def sessions(content: str) -> Iterator[tuple[str, str]]:
    """Commands of a console block, each with the lines after it."""
    for part in re.split(r"^\$ ", content, flags=re.M)[1:]:
        command, _, output = part.partition("\n")
        while command.endswith("\\"):
            more, _, output = output.partition("\n")
            command = f"{command[:-1]}{more}"
        yield command, output


def sections(page: Path) -> dict[str, str]:
    """Heading -> the text under it, up to the next heading of the same or a higher level."""
    text = without_blocks(page.read_text())
    heads = list(re.finditer(r"^(#+) (.+)$", text, flags=re.M))
    by_title = {}
    for number, head in enumerate(heads):
        later = (other.start() for other in heads[number + 1 :] if len(other[1]) <= len(head[1]))
        by_title[head[2].replace("`", "").strip()] = text[head.end() : next(later, len(text))]
    return by_title


def without_blocks(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
