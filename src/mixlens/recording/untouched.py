"""A model is left as it was: what it changes in itself while it runs is put back.

BigBird switches to full attention for good when it first sees a short text, and answers every later
one differently.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from mixlens.errors import UnsupportedModel
from mixlens.recording.calls import Inputs, forward

_PLAIN = (bool, int, float, str, type(None))
_TABLES = ("_modules", "_parameters", "_buffers")


@contextlib.contextmanager
def restored(model: nn.Module) -> Iterator[list[str]]:
    """Puts plain attributes, buffers and submodules of every part back when it closes.

    The list then names the switches that the model had turned: words, truth values and submodules.
    """
    before = [(path, part, _state(part)) for path, part in model.named_modules()]
    turned: list[str] = []
    try:
        yield turned
    finally:
        for path, part, state in before:
            turned += [f"{path}.{name}".lstrip(".") for name in _put_back(part, state)]


def require_own_switches(model: nn.Module, inputs: Inputs, turned: list[str]) -> None:
    """A switch that the probe turned must be one that this very input turns (SeamlessM4T notes
    whether it hears a text or a sound). Submodules are never exchanged: a layer that runs again
    would be a different one.
    """
    if not turned:
        return
    with restored(model) as own, torch.no_grad():
        forward(model, inputs)
    strange = [name for name in turned if name not in own or name.endswith("modules")]
    if strange:
        raise UnsupportedModel(
            f"{type(model).__name__} changes itself on a short text (`{strange[0]}`), so"
            " what is measured there is not what it computes elsewhere. It was put back. Load it"
            " with the setting that it changes to (BigBird: attention_type='original_full')."
        )


def _state(part: nn.Module) -> dict[str, Any]:
    return {
        name: dict(value) if name in _TABLES else value
        for name, value in vars(part).items()
        if name in _TABLES or isinstance(value, _PLAIN)
    }


def _put_back(part: nn.Module, state: dict[str, Any]) -> Iterator[str]:
    for name, value in state.items():
        now: Any = vars(part).get(name)
        if name in _TABLES:
            if {key: id(entry) for key, entry in now.items()} != {
                key: id(entry) for key, entry in value.items()
            }:
                now.clear()
                now.update(value)
                if name == "_modules":
                    yield "modules"
        elif type(now) is not type(value) or now != value:
            vars(part)[name] = value
            if isinstance(value, (str, bool)):
                yield name
