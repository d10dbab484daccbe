"""Random models of the reference numbers, with norms in the precision of their input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as hf
from torch import Tensor, nn

from tests import reference


class PlainNorm(nn.Module):
    """The RMS norm of Llama without transformers' cast to float32, which costs digits."""

    def __init__(self, like: Any) -> None:
        super().__init__()
        self.eps, self.weight = like.variance_epsilon, like.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps))


def stored(folder: Path, name: str) -> Any:
    """A stored model in float64; torch's own attention keeps that precision."""
    about = json.loads((folder / f"{name}.json").read_text())
    kind = getattr(hf, about["architecture"])
    with np.load(folder / f"{name}_state.npz", allow_pickle=False) as file:
        state = {key: torch.from_numpy(value) for key, value in dict(file).items()}
    model = kind(kind.config_class(**about["config"])).double()
    model.load_state_dict(state)
    for parent in list(model.modules()):
        for child, module in list(parent.named_children()):
            if type(module).__name__.endswith("RMSNorm"):
                setattr(parent, child, PlainNorm(module))
    model.set_attn_implementation("sdpa")
    return model.eval()


def arc_jsd() -> Any:
    return stored(reference.FOLDER / "arc_jsd", "llama_n12")


def at2() -> Any:
    return stored(reference.FOLDER / "at2", "llama_n12")
