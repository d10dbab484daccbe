"""The models of all families without a head, in two precisions, recorded once for all tests."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from mixlens import Lens
from tests.conformance.zoo import built, inputs


def state(model: nn.Module) -> tuple[list[Any], dict[str, Tensor]]:
    """All that a recording could leave behind: of every part, and the weights."""
    parts = [
        (
            len(part._forward_hooks),
            len(part._forward_pre_hooks),
            part.training,
            "forward" in vars(part),
            getattr(getattr(part, "config", None), "_attn_implementation_internal", None),
            getattr(getattr(part, "config", None), "_experts_implementation_internal", None),
        )
        for part in model.modules()
    ]
    return parts, {key: value.clone() for key, value in model.state_dict().items()}


class Family:
    """The models, what they were before anything was done to them, and a recording of each."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.models = {dtype: built(name, dtype) for dtype in (torch.float32, torch.float64)}
        self.before = {dtype: state(model) for dtype, model in self.models.items()}
        self.recordings = {
            dtype: Lens(model).record(inputs(name, dtype)) for dtype, model in self.models.items()
        }
