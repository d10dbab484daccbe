"""Import modules of version 0.1 by their former names, with a warning, until version 0.3."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "alignments": "maps.alignments",
    "corpus": "datasets",
    "encoder_decoder": "maps.encoder_decoder",
    "experiments": "papers",
    "explained_embedding": "replay.resolve_output",
    "render": "views",
    "tokens": "text.tokens",
    "trust": "benchmark",
    "viewer": "views.viewer",
    "web": "server",
}


class MovedModules(MetaPathFinder, Loader):
    """Import hook that resolves former names, such as `mixlens.corpus.files`, to the renamed
    module.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a module spec for a former name, and None for all other names."""
        package, _, rest = fullname.partition(".")
        if package != "mixlens" or rest.partition(".")[0] not in MOVED:
            return None
        return ModuleSpec(fullname, self)

    def exec_module(self, module: ModuleType) -> None:
        """Import the module by its new name, and register it under its former name, too."""
        former = module.__name__
        _, top, *rest = former.split(".")
        name = ".".join(["mixlens", MOVED[top], *rest])
        warnings.warn(
            f"{former} has moved to {name}. Change the import: the former name will be removed in"
            " mixlens 0.3.",
            DeprecationWarning,
            stacklevel=2,
        )
        sys.modules[former] = importlib.import_module(name)


def install() -> None:
    """Install `MovedModules` as the first finder, because others would load a moved file twice."""
    if not any(type(finder) is MovedModules for finder in sys.meta_path):
        sys.meta_path.insert(0, MovedModules())
