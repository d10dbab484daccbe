"""Load views of results on demand.

`mixlens.views` draws figures and pages of results. Results must not import it, so they name a view
here, which is loaded on demand.
"""

from __future__ import annotations

import importlib
from typing import Any


def view(name: str) -> Any:
    """Return a module of `mixlens.views`, such as "plots"."""
    return importlib.import_module(f"mixlens.views.{name}")
