"""Measure how much each token contributes to every other token inside a transformer.

`Lens` wraps a Hugging Face model: `Lens.from_pretrained(name).measure("alti", text)` returns
`MixingMaps`. If a score cannot be verified, mixlens raises a `MixlensError` that explains why.

Names are imported on first use, so `import mixlens` and `mixlens --help` do not import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mixlens.errors import (
    CannotLoad,
    CannotWrite,
    EmptyInput,
    InputTooLong,
    InvalidInput,
    MissingExtra,
    MissingTokenizer,
    MixlensError,
    ModelChanged,
    NonFiniteActivations,
    OutOfMemory,
    ProcessesDiffer,
    UnsupportedModel,
    WrongKeys,
)
from mixlens.measures import list_measures
from mixlens.moved_modules import MOVED, install

if TYPE_CHECKING:
    from mixlens.answers.answer import Answer
    from mixlens.lens import Lens
    from mixlens.maps.alternative_attention import alternative_attention, attention_bounds
    from mixlens.maps.comparison import Comparison
    from mixlens.maps.mixing_maps import MixingMaps
    from mixlens.measuring.measure import measure
    from mixlens.recording.recording import Recording
    from mixlens.recording.verification import Report
    from mixlens.runs.results import load

__version__ = "0.2.0"

_LAZY = {
    "Answer": "mixlens.answers.answer",
    "Comparison": "mixlens.maps.comparison",
    "Lens": "mixlens.lens",
    "MixingMaps": "mixlens.maps.mixing_maps",
    "Recording": "mixlens.recording.recording",
    "Report": "mixlens.recording.verification",
    "alternative_attention": "mixlens.maps.alternative_attention",
    "attention_bounds": "mixlens.maps.alternative_attention",
    "load": "mixlens.runs.results",
    "measure": "mixlens.measuring.measure",
}

__all__ = [
    "Answer",
    "CannotLoad",
    "CannotWrite",
    "Comparison",
    "EmptyInput",
    "InputTooLong",
    "InvalidInput",
    "Lens",
    "MissingExtra",
    "MissingTokenizer",
    "MixingMaps",
    "MixlensError",
    "ModelChanged",
    "NonFiniteActivations",
    "OutOfMemory",
    "ProcessesDiffer",
    "Recording",
    "Report",
    "UnsupportedModel",
    "WrongKeys",
    "alternative_attention",
    "attention_bounds",
    "list_measures",
    "load",
    "measure",
]


install()


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    if name in MOVED:
        return importlib.import_module(f"mixlens.{name}")
    raise AttributeError(f"module 'mixlens' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
