"""Sizes on which the memory of a measure depends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of one text in one model, counted in numbers (not bytes)."""

    targets: int  # all tokens of the text, or the named targets in single-target mode
    sources: int
    d_model: int
    heads: int
    d_ff: int
    layers: int
    passing: float  # a text in one layer of the model
    graph: float  # tensors that a gradient through the whole model keeps
    matrix: int  # d_model * d_ff, if matrices of a layer are copied
    block: int  # the largest block of vectors computed at once
    chunk: int  # the largest chunk of tokens that passes a layer at once
    budget: int  # the memory budget
    options: Mapping[str, Any] = field(default_factory=dict)  # of the measure
