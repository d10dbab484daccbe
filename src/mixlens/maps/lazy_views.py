"""Load views of results on demand.

Pictures and pages are drawn by `mixlens.views`, which knows the results. Results must not import
what knows them, so they name a view here and it is loaded when it is asked for.
"""

from __future__ import annotations

import importlib
from typing import Any


def view(name: str) -> Any:
    """A module of `mixlens.views`, such as "plots"."""
    return importlib.import_module(f"mixlens.views.{name}")
