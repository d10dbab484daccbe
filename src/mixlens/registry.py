"""Registries of measures, evaluations and experiments, which plug-ins can extend.

An entry comes from one of three sources:

* a file of this package that defines a `SPEC`, found without importing it;
* `register(name, entry)`, in a notebook;
* an entry point of an installed package, in a group such as `mixlens.measures`:

      [project.entry-points."mixlens.measures"]
      my_measure = "my_package.my_module"

An entry is a module, or any object with the same attributes.
"""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from mixlens.errors import InvalidInput, no_such

Entry = TypeVar("Entry")


class Registry(Generic[Entry]):
    """The entries of one kind, by name."""

    def __init__(
        self, kind: str, package: str, *, order: Callable[[str], Any] = lambda name: name
    ) -> None:
        self.kind = kind
        self.package = package
        self._order = order
        self._files: tuple[str, ...] | None = None
        self._plug_ins: dict[str, EntryPoint] | None = None
        self._registered: dict[str, Entry] = {}

    def names(self) -> tuple[str, ...]:
        """Return all names in order, without importing anything."""
        every = {*self._own(), *self._find_installed(), *self._registered}
        return tuple(sorted(every, key=self._order))

    def entry(self, name: str) -> Entry:
        """Return the module or object that is registered under a name."""
        if not isinstance(name, str):
            raise InvalidInput(no_such(self.kind, name, self.names()))
        if name in self._registered:
            return self._registered[name]
        if name in self._own():
            module = importlib.import_module(f"{self.package}.{name.replace('/', '.')}")
            return cast(Entry, module)
        if name not in self._find_installed():
            raise InvalidInput(no_such(self.kind, name, self.names()))
        try:
            loaded: Entry = self._find_installed()[name].load()
        except Exception as error:
            raise InvalidInput(
                f"The {self.kind} {name!r} of an installed package cannot be loaded "
                f"({self._find_installed()[name].value}: {error!r}). Fix or remove the package."
            ) from error
        self._check(name, loaded)
        return loaded

    def entries(self) -> dict[str, Entry]:
        """Return every entry by name. A plug-in that cannot be loaded is skipped with a warning."""
        loaded = {}
        for name in self.names():
            try:
                loaded[name] = self.entry(name)
            except InvalidInput as error:
                warnings.warn(str(error))
        return loaded

    def register(self, name: str, entry: Entry) -> None:
        """Add an entry. It replaces an earlier registration, but not a built-in name."""
        if name in self._own() or name in self._find_installed():
            raise InvalidInput(f"The {self.kind} {name!r} already exists. Choose a different name.")
        self._check(name, entry)
        self._registered[name] = entry

    def unregister(self, name: str) -> None:
        """Undo `register`."""
        self._registered.pop(name, None)

    def _check(self, name: str, entry: object) -> None:
        if not hasattr(entry, "SPEC"):
            raise InvalidInput(f"The {self.kind} {name!r} has no SPEC. Add one.")

    def _own(self) -> tuple[str, ...]:
        if self._files is None:
            self._files = described_files(importlib.import_module(self.package).__path__)
        return self._files

    def _find_installed(self) -> dict[str, EntryPoint]:
        if self._plug_ins is None:
            self._plug_ins = {}
            for point in entry_points(group=self.package):
                if point.name in self._own():
                    warnings.warn(
                        f"{point.value} provides a {self.kind} {point.name!r}, which is a "
                        "built-in name, so it is skipped"
                    )
                else:
                    self._plug_ins[point.name] = point
        return self._plug_ins


def described_files(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the modules below `paths` that define a `SPEC`, without importing
    them.
    """
    names = []
    for path in paths:
        for info in pkgutil.iter_modules([path]):
            if info.ispkg:
                below = described_files([f"{path}/{info.name}"])
                names += [f"{info.name}/{name}" for name in below]
            elif "\nSPEC = " in Path(path, f"{info.name}.py").read_text(encoding="utf-8"):
                names.append(info.name)
    return tuple(names)
