"""Run the code and commands of the documentation, and compare their output with the pages.

* A `python` block runs. The blocks of a page share one namespace, in order. A first line `# not
  run: <why>` leaves a block out, and `# needs <package>` runs it if the package is installed.
* A `text` block right after code is what it prints. A `console` block holds commands (`$
  mixlens …`) and what they print. Numbers and shades may differ between machines, words may not. A
  line `…` means any lines.
* Other blocks (`sh`, `yaml` …) are only shown.

`python -m tests.test_docs` writes what code and commands print now into the pages.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import mixlens
from mixlens.cli import main
from tests.cli.running import bundled_once
from tests.pages import PAGES, ROOT, Block, blocks, ids, needs_bundled, sessions

NOT_RUN = "# not run: "
NEEDS = "# needs "
ELLIPSIS = "…"
WIDTH = "100"
SLOW = (
    "mixlens demo",
)  # its output is written into the page, and the command has tests of its own


def printed_by_command(line: str) -> str:
    """What a person sees who types the command: both streams, as they come."""
    words = shlex.split(line)
    assert words[0] == "mixlens", f"only mixlens commands are run, not {line!r}"
    printed = io.StringIO()
    plain = {"COLUMNS": WIDTH, "NO_COLOR": "1", "TERM": "dumb"}
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.suppress(SystemExit))
        stack.enter_context(contextlib.redirect_stdout(printed))
        stack.enter_context(contextlib.redirect_stderr(printed))
        stack.enter_context(mock.patch.object(sys, "argv", words))
        stack.enter_context(mock.patch.dict(os.environ, plain))
        main()
    return tidy(printed.getvalue())


def tidy(text: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in text.strip("\n").splitlines())


def is_run(program: str) -> bool:
    first = program.partition("\n")[0]
    if first.startswith(NEEDS):
        return importlib.util.find_spec(first.removeprefix(NEEDS)) is not None
    return not first.startswith(NOT_RUN)


def run_page(text: str, name: str, *, slow: bool = False) -> Iterator[tuple[Block, str, str]]:
    """Runs a page from top to bottom; yields what is shown and what was printed, for every block
    that shows output.
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}
    page_blocks = blocks(text)
    lines = text.splitlines()
    for number, block in enumerate(page_blocks):
        if block.kind == "console":
            for command, shown in sessions(block.content):
                if slow or command not in SLOW:
                    yield block, shown, printed_by_command(command)
        if block.kind != "python" or not is_run(block.content):
            continue
        printed = io.StringIO()
        program = compile("\n" * (block.line - 1) + block.content, name, "exec")
        with contextlib.redirect_stdout(printed):
            exec(program, namespace)
        end = block.line + block.content.count("\n")  # the closing fence
        after = page_blocks[number + 1] if number + 1 < len(page_blocks) else None
        if after is not None and after.kind == "text" and not any(lines[end : after.line - 2]):
            yield after, after.content, tidy(printed.getvalue())


def words_of(text: str) -> list[str]:
    """Lines without what may differ: numbers, shades, bars, and the letters of measures that agree
    with each other.
    """
    text = re.sub(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?%?", "#", text)
    text = re.sub(r"[░▒▓█]+|(?<=\s)-(?=\s|$)", " ", text)
    text = re.sub(r"\b[a-z] #", "#", text)
    return [" ".join(line.split()) for line in text.strip("\n").splitlines()]


def matches(shown: str, printed: str) -> bool:
    expected, actual = words_of(shown), words_of(printed)
    if ELLIPSIS not in expected:
        return expected == actual
    gap = expected.index(ELLIPSIS)
    head, layer_rest = expected[:gap], expected[gap + 1 :]
    return (
        len(actual) >= len(head) + len(layer_rest)
        and actual[:gap] == head
        and actual[len(actual) - len(layer_rest) :] == layer_rest
    )


def uses_bundled(page: Path) -> bool:
    return any(
        block.kind == "console" or "bundled" in block.content for block in blocks(page.read_text())
    )


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=needs_bundled if uses_bundled(page) else ()) for page in PAGES],
    ids=ids(PAGES),
)
def test_programs_run_and_print_what_is_shown(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(mixlens.Lens, "bundled", bundled_once)
    for block, shown, printed in run_page(page.read_text(), str(page)):
        assert matches(shown, printed), (
            f"{page.name}, line {block.line}: shown\n{shown}\nprinted\n{printed}"
        )


def test_a_difference_in_words_is_detected() -> None:
    assert matches("1. hat 5 0.25 ██\n", "1. hat 5 0.31 ███\n")
    assert not matches("1. hat 5 0.25 ██\n", "1. dog 5 0.25 ██\n")
    assert not matches("one\ntwo\n", "one\n")
    assert matches("one\n…\nthree\n", "one\ntwo\ntwo\nthree\n")
    assert not matches("one\n…\nthree\n", "one\ntwo\n")
    page = "```python\nprint('a')\n```\n\n```text\nb\n```\n"
    ((_, shown, printed),) = run_page(page, "page")
    assert not matches(shown, printed)
    with pytest.raises(ZeroDivisionError):
        list(run_page("```python\n1 / 0\n```\n", "page"))
    assert list(run_page("```python\n# not run: it cannot\n1 / 0\n```\n", "page")) == []
    assert list(run_page("```python\n# needs no_such_package\n1 / 0\n```\n", "page")) == []
    with pytest.raises(ZeroDivisionError):
        list(run_page("```python\n# needs torch\n1 / 0\n```\n", "page"))


# ------------------------------------------------------------------------------------------ renewal


def renewed(text: str, name: str) -> str:
    """A page with what its code and commands print now.

    A line `…` stays where it was, counted from the first line.
    """
    made: dict[int, list[str]] = {}
    for block, shown, printed in run_page(text, name, slow=True):
        lines = shown.splitlines()
        if ELLIPSIS in lines:
            gap, now = lines.index(ELLIPSIS), printed.splitlines()
            rest = len(lines) - gap - 1
            printed = "".join(
                f"{line}\n" for line in [*now[:gap], ELLIPSIS, *now[len(now) - rest :]]
            )
        made.setdefault(block.line, []).append(printed)
    lines = text.splitlines(keepends=True)
    for block in reversed(blocks(text)):
        if block.line not in made:
            continue
        content = made[block.line][0]
        if block.kind == "console":
            parts = re.split(r"(?m)^(?=\$ )", block.content)[1:]
            gaps = ["\n" * part.endswith("\n\n") for part in parts]
            heads = [
                part[: len(part) - len(shown)]
                for part, (_, shown) in zip(parts, sessions(block.content), strict=True)
            ]
            content = "".join(
                head + output + gap
                for head, output, gap in zip(heads, made[block.line], gaps, strict=True)
            )
        lines[block.line - 1 : block.line - 1 + block.content.count("\n")] = [content]
    return "".join(lines)


if __name__ == "__main__":
    chosen = [Path(name).resolve() for name in sys.argv[1:]] or PAGES
    for each in chosen:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)  # the code may write files
            each.write_text(renewed(each.read_text(), str(each)))
            os.chdir(ROOT)
        print(each)
