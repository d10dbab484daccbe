"""Check that a model is unchanged after a recording."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

State = dict[str, Any]


def tensors_in(output: Any, name: str = "output") -> Iterator[tuple[str, Tensor]]:
    """Every tensor in what a model returns, with its place."""
    if isinstance(output, Tensor):
        yield name, output
    elif isinstance(output, Mapping):
        for key, value in output.items():
            yield from tensors_in(value, f"{name}.{key}")
    elif isinstance(output, (tuple, list)):
        for number, value in enumerate(output):
            yield from tensors_in(value, f"{name}.{number}")


@torch.no_grad()
def state_of(model: nn.Module, given: Mapping[str, Any]) -> State:
    """What the model answers, its numbers, its configuration, and the plain attributes and hooks of
    every part.
    """
    torch.manual_seed(0)
    state: State = dict(tensors_in(model(**given)))
    state |= {f"state {name}": value.clone() for name, value in model.state_dict().items()}
    state |= {f"buffer {name}": value.clone() for name, value in model.named_buffers()}
    state["config"] = repr(model.config)
    for path, part in model.named_modules():
        for name, value in vars(part).items():
            if isinstance(value, (bool, int, float, str, type(None))):
                state[f"attribute {path}.{name}"] = value
            elif name.endswith("_hooks"):
                state[f"hooks {path}.{name}"] = len(value)
    return state


def changes(before: State, after: State) -> list[str]:
    """Names of what is different. What differs between two runs of an untouched model, because it
    draws at random, must be taken out by the caller.
    """
    changed = [name for name in before if name not in after]
    for name, value in after.items():
        if name not in before:
            changed.append(name)
        elif isinstance(value, Tensor):
            if value.shape != before[name].shape or not torch.equal(value, before[name]):
                if not (value.isnan() & before[name].isnan()).any():
                    changed.append(name)
        elif value != before[name]:
            changed.append(name)
    return changed
