"""Handle modules that cast themselves while they run (routers of Switch and NLLB-MoE).

A cast writes into parameters, even one that changes nothing. Inside a transform of torch.func it
would store the transform's own wrappers there. They outlive the transform, and the next run of the
user's model crashes the process.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn


@contextlib.contextmanager
def idle_casts_skipped(module: nn.Module) -> Iterator[None]:
    """Skip `part.to(dtype)` if the part already has that dtype, while the context is open."""
    parts = [part for part in module.modules() if "to" not in vars(part)]
    try:
        for part in parts:
            vars(part)["to"] = _to(part)
        yield
    finally:
        for part in parts:
            vars(part).pop("to", None)


def _to(part: nn.Module) -> Callable[..., nn.Module]:
    def to(*args: Any, **named: Any) -> nn.Module:
        alone = len(args) == 1 and isinstance(args[0], torch.dtype) and not named
        if alone and all(parameter.dtype == args[0] for parameter in part.parameters()):
            return part
        return type(part).to(part, *args, **named)

    return to
