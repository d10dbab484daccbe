"""A model is left as it was: what it changes in itself while it runs is put back.

BigBird switches to full attention for good when it first sees a short text, and answers every later
one differently.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import nn

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
