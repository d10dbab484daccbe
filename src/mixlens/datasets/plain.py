"""Read plain text: one text per line or per paragraph.

If blank lines divide the file into blocks and most blocks have several lines, each block is a text
and its lines are joined. Otherwise each line is a text. WikiText is recognised by its headings (` =
Title = `). The headings are skipped, each line is a paragraph, and tokenised text ("role @-@
playing , is") is converted to plain spelling.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from mixlens.datasets.examples import Example
from mixlens.datasets.files import all_lines_of, lines_of
from mixlens.datasets.spelling import join_words

_HEADING = re.compile(r" *(= )+[^=].*( =)+ *")


def read(path: Path) -> Iterator[Example]:
    """Yield one example per line or per block of lines, without WikiText headings."""
    lines = lines_of(path)
    if any(_HEADING.fullmatch(line) for _, line in lines):
        for name, line in lines:
            if not _HEADING.fullmatch(line):
                yield Example(name=name, text=join_words(line.split())[0])
        return
    for name, text in _paragraphs(path) or lines:
        yield Example(name=name, text=text.strip())


def _paragraphs(path: Path) -> list[tuple[str, str]]:
    """Return (name, text) for each block, or an empty list if most blocks are single lines.

    The name is `file:number`, where `number` is the line number of the first line in the block.
    """
    blocks: list[tuple[str, list[str]]] = []
    blank = True
    for number, line in enumerate(all_lines_of(path), 1):
        if line.strip() and blank:
            blocks.append((f"{path.name}:{number}", []))
        if line.strip():
            blocks[-1][1].append(line.strip())
        blank = not line.strip()
    if len(blocks) < 2 or sum(len(lines) > 1 for _, lines in blocks) <= len(blocks) / 2:
        return []
    return [(name, " ".join(lines)) for name, lines in blocks]
