"""Commands in `sh` blocks of the pages name models of the hub and files of the reader, so they are
not run. They are read as the command line reads them: each command and option exists and takes its
value.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from mixlens.cli import app
from tests.pages import PAGES, ROOT, blocks


def commands(page: Path) -> Iterator[list[str]]:
    """The words of each `mixlens` command, without comments and without where its output goes."""
    for block in blocks(page.read_text(encoding="utf-8")):
        for line in block.content.replace("\\\n", " ").splitlines() if block.kind == "sh" else ():
            if line.startswith("mixlens "):
                yield shlex.split(line.partition(" > ")[0], comments=True)[1:]


def parsed(words: list[str]) -> None:
    """Reads a command and does not run it."""
    group: Any = typer.main.get_command(app)
    with group.make_context("mixlens", words[:0], resilient_parsing=True) as context:
        name, command, rest = group.resolve_command(context, list(words))
        command.make_context(name, rest, parent=context)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_can_be_read(page: Path) -> None:
    for words in commands(page):
        try:
            parsed(words)
        except Exception as error:
            pytest.fail(f"mixlens {shlex.join(words)}: {error}")


def test_a_wrong_option_is_seen() -> None:
    with pytest.raises(Exception, match="--mesure"):
        parsed(["map", "a dog", "--mesure", "attention"])
    assert sum(len(list(commands(page))) for page in PAGES) > 30
