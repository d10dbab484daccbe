"""Detect models that are spread over several processes.

With tensor parallelism and FSDP each process has a part of every weight, and with pipeline
parallelism some of the layers. One process then has too little to measure, and a process that stops
early leaves the others waiting. The check needs no communication, so it raises the same error in
every process.
"""

from __future__ import annotations

import sys
from typing import Any

from torch import nn

from mixlens.errors import UnsupportedModel
from mixlens.model.module_walk import parts_of, tensors_of

_FSDP = {"FSDPModule", "FullyShardedDataParallel"}
_INSTEAD = (
    "Load the model in one process. With device_map='auto', transformers spreads its layers over "
    "several GPUs, and mixlens measures it"
)


def require_one_process(model: nn.Module) -> None:
    """Raise `UnsupportedModel` if other processes hold a part of a model."""
    spread = _described(model) if "torch.distributed" in sys.modules else None
    if spread is not None:
        raise UnsupportedModel(f"{type(model).__name__} is spread by {spread}. {_INSTEAD}")


def _described(model: nn.Module) -> str | None:
    """Return how a model is spread over processes, and what each of them has, or None."""
    parts = parts_of(model)
    stages = (vars(part).get("_pp_stage") for part in parts)
    sizes = [getattr(stage, "pp_size", 0) for stage in stages if stage is not None]
    if max(sizes, default=0) > 1:
        return f"pipeline parallelism (pp_size={max(sizes)}), so this process has some layers only"
    if any(_FSDP & {each.__name__ for each in kind.__mro__} for kind in set(map(type, parts))):
        return "FSDP, so this process has a part of every weight only"
    tp_size: Any = max((vars(part).get("_tp_size") or 0 for part in parts), default=0)
    if tp_size > 1 or _has_distributed_tensors(model):
        size = f" (tp_size={tp_size})" if tp_size > 1 else ""
        return f"tensor parallelism{size}, so this process has a part of some weights only"
    return None


def _has_distributed_tensors(model: nn.Module) -> bool:
    tensor = sys.modules.get("torch.distributed.tensor")  # it is slow to import
    return tensor is not None and any(
        isinstance(each, tensor.DTensor) for each in tensors_of(model)
    )
