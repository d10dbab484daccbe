"""Load figures and pages of results on demand.

`mixlens.views` draws figures and pages of results. The modules of results must not import it, so
they load views through this module when they need them.
"""

from __future__ import annotations

import importlib
from typing import Any


def view(name: str) -> Any:
    """Return a module of `mixlens.views`, such as "plots"."""
    return importlib.import_module(f"mixlens.views.{name}")
