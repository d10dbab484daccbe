"""Import scipy's optimisers, which need an extra."""

from __future__ import annotations

from types import ModuleType

from mixlens.errors import MissingExtra


def scipy_optimize() -> ModuleType:
    """Return scipy's optimisers, or raise an error that names the extra."""
    try:
        import scipy.optimize
    except ImportError as error:
        raise MissingExtra("scipy") from error
    return scipy.optimize
