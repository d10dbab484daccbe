"""Import the code for figures and HTML pages on first use.

`mixlens.views` draws figures and writes HTML pages. Modules that define results must not import
`mixlens.views` at the top, so they load it through this module on first use.
"""

from __future__ import annotations

import importlib
from typing import Any


def view(name: str) -> Any:
    """Return a module of `mixlens.views`, such as "plots"."""
    return importlib.import_module(f"mixlens.views.{name}")
