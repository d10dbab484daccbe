"""The zoo: tiny models of transformers' architectures, as configurations and inputs.

Each line of `models.jsonl.xz` is one model class of transformers 5.22: `type`, `class`,
`config_class`, `config` and `inputs`, taken as facts from transformers' own test suite (two rows,
masks of ones). Every weight is made random here, because zeros and ones hide mistakes.
"""

from __future__ import annotations

import copy
import json
import lzma
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

FILE = Path(__file__).with_name("models.jsonl.xz")


@dataclass(frozen=True)
class Entry:
    """One model class."""

    type: str
    name: str
    variant: int  # a class may be here with several configurations
    config_class: str
    config: dict[str, Any]
    inputs: dict[str, Any]

    @property
    def key(self) -> str:
        return self.name if self.variant == 1 else f"{self.name} ({self.variant})"

    def build(self) -> nn.Module:
        """The model in eval mode, in float32, every weight random; the same each time."""
        torch.manual_seed(0)
        # Some classes write into their configuration (LeViT), which must not be that of the next.
        config = getattr(transformers, self.config_class).from_dict(copy.deepcopy(self.config))
        model: nn.Module = getattr(transformers, self.name)(config).float().eval()
        randomise(model)
        return model

    def given(self) -> dict[str, Any]:
        """The inputs; numbers that the line does not hold are drawn, the same each time."""
        generator = torch.Generator().manual_seed(1)
        return {name: _value(line, generator) for name, line in self.inputs.items()}


def entries() -> list[Entry]:
    with lzma.open(FILE, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    seen: dict[str, int] = {}
    listed = []
    for row in rows:
        name = row["class"]
        seen[name] = seen.get(name, 0) + 1
        parts = (row["config_class"], row["config"], row["inputs"])
        listed.append(Entry(row["type"], name, seen[name], *parts))
    return listed


def _value(line: dict[str, Any], generator: torch.Generator) -> Any:
    if "value" in line:
        return line["value"]
    dtype = getattr(torch, line["dtype"].removeprefix("torch."))
    if "normal" in line:
        return torch.randn(line["normal"], generator=generator).to(dtype)
    return torch.tensor(line["data"], dtype=dtype).reshape(line["shape"])


@torch.no_grad()
def randomise(model: nn.Module, seed: int = 0) -> None:
    """Constants (norms, biases, gates, scales) get noise of 0.2. Matrices of small spread are
    redrawn with a standard deviation of 1 / sqrt(fan-in), but between 0.1 and 0.3. Running means
    and variances move too.
    """
    generator = torch.Generator().manual_seed(seed)

    def noise(tensor: Tensor) -> Tensor:
        return torch.randn(tensor.shape, generator=generator).to(tensor)

    for parameter in model.parameters():
        if not parameter.is_floating_point():
            continue
        if parameter.dim() < 2 or parameter.numel() < 2 or float(parameter.std()) == 0:
            parameter.add_(0.2 * noise(parameter))
            continue
        spread = min(0.3, max(0.1, parameter[0].numel() ** -0.5))
        if float(parameter.std()) < spread:
            parameter.copy_(spread * noise(parameter))
    for name, buffer in model.named_buffers():
        if name.endswith("running_mean"):
            buffer += 0.2 * noise(buffer)
        if name.endswith("running_var"):
            buffer += 0.2 * noise(buffer).abs()
