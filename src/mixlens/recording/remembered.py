"""What was found out about a module, remembered until its numbers change."""

from __future__ import annotations

import contextlib
import contextvars
import operator
import weakref
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

from torch import nn

from mixlens.parts import tensors_of

Found = TypeVar("Found")


_looked_at: contextvars.ContextVar[dict[int, Hashable] | None] = contextvars.ContextVar(
    "mixlens_looked_at", default=None
)


_since: weakref.WeakKeyDictionary[nn.Module, tuple[Hashable, dict[int, Hashable]]] = (
    weakref.WeakKeyDictionary()
)


@contextlib.contextmanager
def weights_unchanged(model: nn.Module) -> Iterator[None]:
    """While open nobody writes to a model: its numbers are looked at once, not for every layer, and
    those of its parts only if the whole model has changed since the last time.
    """
    numbers = _numbers(model)
    before, known = _since.get(model, (None, {}))
    away = 0 in numbers[2]  # offloaded: their numbers say nothing
    if before != numbers or away:
        known = {id(model): numbers}
        _since[model] = (numbers, known)
    token = _looked_at.set(known)
    try:
        yield
    finally:
        _looked_at.reset(token)


def numbers_of(module: nn.Module) -> Hashable:
    """Changes when a parameter or a buffer is written to, replaced or moved."""
    known = _looked_at.get()
    if known is not None and id(module) in known:
        return known[id(module)]
    numbers = _numbers(module)
    if known is not None:
        known[id(module)] = numbers
    return numbers


_version, _pointer = operator.attrgetter("_version"), operator.methodcaller("data_ptr")


def _numbers(module: nn.Module) -> tuple[tuple[int, ...], ...]:
    tensors = tensors_of(module)
    return tuple(map(id, tensors)), tuple(map(_version, tensors)), tuple(map(_pointer, tensors))


class Remembered(Generic[Found]):
    """One store for each kind of finding; it holds no module alive."""

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[
            nn.Module, tuple[Hashable, dict[Hashable, Found]]
        ] = weakref.WeakKeyDictionary()

    def of(
        self, module: nn.Module, key: Hashable, find: Callable[[], Found], state: Hashable = None
    ) -> Found:
        """What `find` gives for `key`; `state` adds to the module's numbers what else must stay as
        it is.
        """
        now = (numbers_of(module), state)
        before, known = self._known.get(module, (None, {}))
        if before != now:
            known = {}
            self._known[module] = (now, known)
        if key not in known:
            known[key] = find()
        return known[key]
