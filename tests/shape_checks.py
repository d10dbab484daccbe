"""Checks the array shapes that signatures name, while the tests run.

jaxtyping has an import hook of its own. It also wraps every function inside a function, each time
that one is made, and every signature without shapes: more than half of the time of the tests went
there. This one wraps what says a shape, once, when its module is loaded.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

SHAPED = ("Float", "Int", "Bool", "Shaped")


def names_a_shape(node: ast.AST | None) -> bool:
    """Does an annotation hold `Float[...]` or one of its kind?"""
    return node is not None and any(
        isinstance(part, ast.Subscript)
        and isinstance(part.value, ast.Name)
        and part.value.id in SHAPED
        for part in ast.walk(node)
    )


def with_checks(tree: ast.Module) -> ast.Module:
    """The module with a decorator on every function, method and class that names a shape."""
    for node in tree.body:
        members = node.body if isinstance(node, ast.ClassDef) else []
        for item in [node, *members]:
            if isinstance(item, ast.FunctionDef) and any(map(names_a_shape, _annotations(item))):
                item.decorator_list.append(_decorator(item))
        if any(
            isinstance(item, ast.AnnAssign) and names_a_shape(item.annotation) for item in members
        ):
            node.decorator_list.insert(0, _decorator(node))  # type: ignore[attr-defined]
    return ast.fix_missing_locations(tree)


def _annotations(function: ast.FunctionDef) -> list[ast.expr | None]:
    given = function.args
    return [
        *(each.annotation for each in [*given.posonlyargs, *given.args, *given.kwonlyargs]),
        function.returns,
    ]


def _decorator(node: ast.stmt) -> ast.expr:
    checked = ast.parse(f"__import__({__name__!r}, fromlist=['checked']).checked", mode="eval").body
    return ast.copy_location(checked, node)


def checked(thing: Any) -> Any:
    """A function, or a dataclass as it is made, with its shapes checked."""
    from beartype import beartype
    from jaxtyping import jaxtyped

    return jaxtyped(thing, typechecker=beartype)


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        tree = ast.parse(self.get_data(path), path)
        return compile(with_checks(tree), path, "exec", dont_inherit=True)


class Finder(MetaPathFinder):
    """Loads the modules of these packages with their shapes checked."""

    def __init__(self, packages: Sequence[str], but: Sequence[str] = ()) -> None:
        self.packages, self.but = tuple(packages), frozenset(but)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's own spec with a loader that adds the checks; None for all others."""
        inside = any(f"{fullname}.".startswith(f"{package}.") for package in self.packages)
        if not inside or fullname in self.but:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(fullname, spec.loader.path)
        return spec


def install(packages: Sequence[str], but: Sequence[str] = ()) -> None:
    """From here on these packages are loaded with their shapes checked."""
    sys.meta_path.insert(0, Finder(packages, but))
