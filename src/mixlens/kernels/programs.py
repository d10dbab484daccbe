"""scipy's optimisers, which come with an extra."""

from __future__ import annotations

from types import ModuleType


def scipy_optimize() -> ModuleType:
    try:
        import scipy.optimize
    except ImportError as error:
        raise ImportError("this needs scipy: pip install mixlens[eval]") from error
    return scipy.optimize
