"""What the pages made from kept files share: the command that writes them, and paragraphs of the
page's width.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

WIDTH = 100


def wrapped(text: str) -> str:
    """Return a paragraph or a list item, wrapped to the width of the page."""
    indent = "  " if text.startswith("* ") else ""
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)


def write(
    about: str | None, taken: Callable[[Path], int], pages: Callable[[], Mapping[Path, str]]
) -> None:
    """Copy the results that `--take` names into the repository, and write every page."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--take", type=Path, help="a folder whose files are taken in first")
    chosen = parser.parse_args()
    if chosen.take is not None:
        print(f"{taken(chosen.take)} taken")
    for path, text in pages().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
