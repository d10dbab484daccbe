"""mixlens: how much of each token is inside every other token of a transformer."""

from __future__ import annotations

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
from mixlens.lens import Lens

__version__ = "0.1.0"
