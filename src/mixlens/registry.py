"""Which files of a package are entries of it: those that say what they are in a `SPEC`."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from pathlib import Path


def entries(paths: Iterable[str]) -> tuple[str, ...]:
    """Names of the modules below `paths` that define a `SPEC`, found without importing them."""
    names = []
    for path in paths:
        for info in pkgutil.iter_modules([path]):
            if info.ispkg:
                names += [f"{info.name}/{name}" for name in entries([f"{path}/{info.name}"])]
            elif "\nSPEC = " in Path(path, f"{info.name}.py").read_text(encoding="utf-8"):
                names.append(info.name)
    return tuple(sorted(names))
