"""Restore attributes, buffers and submodules that a model changes in itself while it runs.

BigBird switches to full attention permanently on the first short text, and computes every later one
differently. Dynamic NTK keeps the rotary frequencies of the longest text so far.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from mixlens.capture.layer_calls import Inputs, forward
from mixlens.errors import UnsupportedModel
from mixlens.model.model_changes import MARKS, written_by_passes
from mixlens.model.module_walk import parts_of

_PLAIN = (bool, int, float, str, type(None))
_TABLES = ("_modules", "_parameters", "_buffers")


@contextlib.contextmanager
def restored(model: nn.Module) -> Iterator[list[str]]:
    """Restore plain attributes, buffers and submodules of every part when the context closes.

    The list then contains the switches that the model changed: strings, booleans and submodules.
    """
    before = [(part, *_state(part)) for part in parts_of(model)]
    turned: list[str] = []
    try:
        yield turned
    finally:
        switches = [(part, name) for part, *state in before for name in _put_back(part, *state)]
        paths = {part: path for path, part in model.named_modules()} if switches else {}
        turned += [f"{paths[part]}.{name}".lstrip(".") for part, name in switches]


def require_own_switches(model: nn.Module, inputs: Inputs, turned: list[str]) -> None:
    """Raise unless this input also flips the switches that the probe flipped (SeamlessM4T stores
    whether its input is text or audio). Submodules must never be exchanged, because a layer that
    runs again would be a different one.
    """
    if not turned:
        return
    with restored(model) as own, torch.no_grad():
        forward(model, inputs)
    strange = [name for name in turned if name not in own or name.endswith("modules")]
    if strange:
        raise UnsupportedModel(
            f"{type(model).__name__} changes itself on a short text (`{strange[0]}`), so "
            "scores of it would differ from those of other texts. mixlens restored it. Load "
            "it with the setting that it changes to (BigBird: "
            "attention_type='original_full')."
        )


def _state(part: nn.Module) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the attributes of a module, and the contents of its tables."""
    own = vars(part)
    return dict(own), {name: dict(own[name]) for name in _TABLES if name in own}


def _put_back(part: nn.Module, own: dict[str, Any], tables: dict[str, Any]) -> Iterator[str]:
    now = vars(part)
    for name, entries in tables.items():
        if not _identical(now[name], entries):
            now[name].clear()
            now[name].update(entries)
            if name == "_modules":
                yield "modules"
    if _identical(now, own):
        return
    written_by_passes.setdefault(part, set()).update(
        name for name, new in now.items() if _is_number(new) and new != own.get(name)
    )
    for name, value in own.items():
        new = now.get(name)
        if isinstance(value, _PLAIN) and (type(new) is not type(value) or new != value):
            now[name] = value
            if isinstance(value, (str, bool)):
                yield name
    for name in [each for each in now if each not in own and each not in MARKS]:
        if isinstance(now[name], _PLAIN):  # it may hide an attribute of the class
            if isinstance(now.pop(name), (str, bool)):
                yield name


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _identical(now: dict[str, Any], before: dict[str, Any]) -> bool:
    """Return whether two tables hold the same objects under the same names."""
    return list(now) == list(before) and all(map(operator.is_, now.values(), before.values()))
