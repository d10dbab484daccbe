"""Find the places of a module that can be changed, and change one.

A change swaps a comparison or an arithmetic operator, shifts a number, negates a condition or
returns None. Tuning numbers at the top of a module, annotations, docstrings, assertions and error
messages stay as they are, because changes of them are not errors.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_OPERATORS: dict[type, type] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt},
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
    **{ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And},
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult},
    **{ast.FloorDiv: ast.Mult, ast.Mod: ast.Add, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd},
}
_SKIPPED = (ast.Raise, ast.Assert, ast.JoinedStr, ast.arguments, ast.Import, ast.ImportFrom)


@dataclass(frozen=True)
class Change:
    """A new text for a range of a file."""

    path: Path
    line: int
    start: int  # in bytes of the file
    stop: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before} → {self.after}"

    def applied(self, source: bytes) -> bytes:
        """Return the changed file."""
        return source[: self.start] + f"({self.after})".encode() + source[self.stop :]


def changes_of(path: Path, source: bytes) -> list[Change]:
    """Return all changes of a module."""
    tree = ast.parse(source)
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    changes = []
    for function in _functions(tree):
        for node, after in _pairs(function):
            start = starts[node.lineno - 1] + node.col_offset
            stop = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
            before = source[start:stop].decode()
            changes.append(Change(path, node.lineno, start, stop, before, ast.unparse(after)))
    return changes


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """Yield functions and methods that are not inside another function."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield node
        elif isinstance(node, ast.ClassDef | ast.If):
            yield from _functions(node)


def _pairs(function: ast.FunctionDef) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield each expression that can be changed, and its new form."""
    for node in _nodes(function):
        if isinstance(node, ast.Return) and not _is_none(node.value):
            assert node.value is not None
            yield node.value, ast.Constant(None)
        elif isinstance(node, ast.expr):
            yield from ((node, after) for after in _changed(node))


def _is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def _nodes(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Yield the parts of a function body that its results can depend on."""
    nodes: list[ast.AST] = list(function.body)
    while nodes:
        node = nodes.pop()
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, _SKIPPED) or is_text:
            continue
        yield node
        kept = {"annotation", "returns"} if not isinstance(node, ast.FunctionDef) else {"returns"}
        for name, value in ast.iter_fields(node):
            if name not in kept:
                parts = value if isinstance(value, list) else [value]
                nodes += [part for part in parts if isinstance(part, ast.AST)]


def _changed(node: ast.expr) -> Iterator[ast.expr]:
    other = copy.deepcopy(node)
    if isinstance(other, ast.Compare) and type(other.ops[0]) in _OPERATORS:
        other.ops[0] = _OPERATORS[type(other.ops[0])]()
        yield other
    elif isinstance(other, ast.BoolOp | ast.BinOp) and type(other.op) in _OPERATORS:
        other.op = _OPERATORS[type(other.op)]()
        yield other
    elif isinstance(other, ast.UnaryOp) and isinstance(other.op, ast.Not):
        yield other.operand
    elif isinstance(other, ast.Constant) and isinstance(other.value, bool):
        yield ast.Constant(not other.value)
    elif isinstance(other, ast.Constant) and isinstance(other.value, int | float):
        yield ast.Constant(other.value + 1)
    elif isinstance(other, ast.IfExp):
        yield ast.IfExp(ast.UnaryOp(ast.Not(), other.test), other.body, other.orelse)
