"""Passages of prose that users read: pages, help, errors, docstrings and the changelog."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
_SECTION = re.compile(r"^(Parameters|Returns|Raises|Attributes|Examples)\n-+\n", re.MULTILINE)


@dataclass(frozen=True)
class Passage:
    """A paragraph, a bullet point, a help text, an error message or a docstring."""

    kind: str
    place: str
    text: str


def all_passages(root: Path) -> list[Passage]:
    """Return all passages of a repository, in a fixed order and each text once."""
    passages = {each.text: each for each in reversed([*_pages(root), *_sources(root)])}
    return sorted(passages.values(), key=lambda each: (each.kind, each.place, each.text))


def whole_pages(root: Path) -> list[Passage]:
    """Return README and docs with their tables and generated pages, without blocks of code."""
    pages = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    return [
        Passage("page", page.name, _FENCE.sub("\n", page.read_text(encoding="utf-8")))
        for page in pages
    ]


def _pages(root: Path) -> Iterator[Passage]:
    pages = {root / "README.md": "readme", root / "CHANGELOG.md": "changelog"}
    pages |= dict.fromkeys((root / "docs").rglob("*.md"), "docs")
    for path, kind in pages.items():
        place = path.relative_to(root).as_posix()
        if path.exists():
            for text in paragraphs(path.read_text(encoding="utf-8")):
                yield Passage(kind, place, text)


def paragraphs(markdown: str) -> Iterator[str]:
    """Yield paragraphs and bullet points, without headings, tables, quotes, code and formulas."""
    markdown = _FENCE.sub("\n", markdown)
    markdown = re.sub(r"<!--.*?-->|<(?!http)[^>\n]+>", "", markdown, flags=re.DOTALL)
    markdown = re.sub(r"^ *([*-]|\d+\.) ", "\n", markdown, flags=re.MULTILINE)
    for block in re.split(r"\n\s*\n", markdown):
        is_indented = all(line.startswith("    ") for line in block.splitlines())
        text = " ".join(block.split())
        if text and not is_indented and not re.match(r"[#|>!\[:]", text) and len(text.split()) > 3:
            yield re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)


def _sources(root: Path) -> Iterator[Passage]:
    for path in sorted((root / "src").rglob("*.py")):
        place = path.relative_to(root).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        is_command = "mixlens/cli/" in place
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                kind = "help" if is_command and isinstance(node, ast.FunctionDef) else "docstrings"
                for text in _docstring(node):
                    yield Passage(kind, f"{place}:{getattr(node, 'lineno', 1)}", text)
            elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                yield from _messages("errors", place, node.exc.args[0])
            elif isinstance(node, ast.Call) and is_command:
                for keyword in node.keywords:
                    if keyword.arg == "help":
                        yield from _messages("help", place, keyword.value)


def _docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> Iterator[str]:
    """Yield the text before the examples, without the titles of sections."""
    text = inspect.cleandoc(ast.get_docstring(node) or "").partition("\nExamples\n")[0]
    text = _SECTION.sub("\n", text)
    prose = [block for block in text.split("\n\n") if not block.startswith("    ")]
    if sum(len(block.split()) for block in prose) > 3:
        yield " ".join(" ".join(prose).split())


def _messages(kind: str, place: str, node: ast.expr) -> Iterator[Passage]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = node.value
    elif isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
        text = "".join(map(str, parts))
    else:
        return
    if len(text.split()) > 3:
        yield Passage(kind, f"{place}:{node.lineno}", " ".join(text.split()))
