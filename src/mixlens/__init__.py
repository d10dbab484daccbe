"""mixlens: how much of each token is inside every other token of a transformer.

Names are loaded when first used, so that `import mixlens` and `mixlens --help` need no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mixlens.errors import (
    EmptyInput,
    InputTooLong,
    InvalidInput,
    MissingTokenizer,
    MixlensError,
    NonFiniteActivations,
    UnsupportedModel,
    WrongKeys,
)

if TYPE_CHECKING:
    from mixlens.lens import Lens
    from mixlens.recording.recording import Recording
    from mixlens.recording.verification import Report

__version__ = "0.1.0"

_LAZY = {
    "Lens": "mixlens.lens",
    "Recording": "mixlens.recording.recording",
    "Report": "mixlens.recording.verification",
}

__all__ = [
    "EmptyInput",
    "InputTooLong",
    "InvalidInput",
    "Lens",
    "MissingTokenizer",
    "MixlensError",
    "NonFiniteActivations",
    "Recording",
    "Report",
    "UnsupportedModel",
    "WrongKeys",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'mixlens' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
