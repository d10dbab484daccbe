"""Check the array shapes of signatures while the tests run.

jaxtyping has an import hook of its own. It also wraps every function inside a function, each time
that one is made, and every signature without shapes: more than half of the time of the tests went
there. This one wraps what says a shape, once, when its module is loaded. A call is checked if
nothing of its form (types, shapes and words) was checked before: a quarter of the time went there.
"""

from __future__ import annotations

import ast
import functools
import sys
import threading
from collections.abc import Callable, Hashable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, FunctionType, ModuleType
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
    if isinstance(thing, type):
        thing.__init__ = _checked_function(thing.__init__)  # type: ignore[misc]
        return thing
    return _checked_function(thing)


def _checked_function(function: Any) -> Callable[..., Any]:
    from beartype import beartype
    from jaxtyping import jaxtyped

    known: set[Hashable] = set()
    waiting = threading.local()

    def result_that_waits(*args: Any, **kwargs: Any) -> Any:
        if hasattr(waiting, "result"):
            return waiting.__dict__.pop("result")
        return function(*args, **kwargs)

    # jaxtyping looks for the names in a signature among the globals of its function.
    stand_in = FunctionType(
        result_that_waits.__code__, function.__globals__, closure=result_that_waits.__closure__
    )
    check = jaxtyped(functools.wraps(function)(stand_in), typechecker=beartype)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        given = (_form(args), _form(kwargs))
        if given not in known:
            result = check(*args, **kwargs)
        else:
            result = function(*args, **kwargs)
            if (given, _form(result)) in known:
                return result
            waiting.result = result
            check(*args, **kwargs)
        known.update((given, (given, _form(result))))
        return result

    return call


def _form(value: Any) -> Any:
    """All that a check looks at."""
    kind = type(value)
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return kind, value.dtype, tuple(value.shape)
    if kind is str:
        return value
    if isinstance(value, (tuple, list)):
        return kind, tuple(_form(item) for item in value)
    if isinstance(value, dict):
        return kind, tuple((_form(key), _form(item)) for key, item in value.items())
    return kind


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
