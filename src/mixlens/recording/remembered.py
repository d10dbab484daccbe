"""What was found out about a module, remembered until its numbers, its parts, their code or their
settings change.
"""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import operator
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from torch import nn

from mixlens.parts import configs_of, parts_of, tensors_in

Found = TypeVar("Found")


_looked_at: contextvars.ContextVar[dict[int, Hashable] | None] = contextvars.ContextVar(
    "mixlens_looked_at", default=None
)


_since: weakref.WeakKeyDictionary[nn.Module, tuple[Hashable, dict[int, Hashable]]] = (
    weakref.WeakKeyDictionary()
)


@contextlib.contextmanager
def weights_unchanged(model: nn.Module) -> Iterator[None]:
    """While open nobody changes a model: it is looked at once, not for every layer, and its parts
    only if the whole model has changed since the last time.
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
    """Changes when a parameter or a buffer is written to, replaced or moved, when a part or its
    code is replaced, and when a word, a number or a truth value that a part holds is.
    """
    known = _looked_at.get()
    if known is not None and id(module) in known:
        return known[id(module)]
    numbers = _numbers(module)
    if known is not None:
        known[id(module)] = numbers
    return numbers


def settings_of(model: nn.Module) -> Hashable:
    """Words, numbers and truth values that the configs of a model hold. Idefics puts its config
    into a tuple.
    """
    return tuple(_plain(getattr(config, "__dict__", {}).values()) for config in configs_of(model))


_version, _pointer = operator.attrgetter("_version"), operator.methodcaller("data_ptr")
_values, _own_forward = operator.methodcaller("values"), operator.methodcaller("get", "forward")
_forward = operator.attrgetter("forward")
_PLAIN = frozenset({bool, int, float, str})


def _plain(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple([value for value in values if type(value) in _PLAIN])


def _numbers(module: nn.Module) -> tuple[tuple[Any, ...], ...]:
    """By ids, where an object would keep its module alive."""
    parts = parts_of(module)
    tensors, own, kinds = tensors_in(parts), list(map(vars, parts)), tuple(map(type, parts))
    return (
        tuple(map(id, tensors)),
        tuple(map(_version, tensors)),
        tuple(map(_pointer, tensors)),
        tuple(map(id, parts)),
        kinds,
        tuple(map(_forward, dict.fromkeys(kinds))),
        tuple(map(id, map(_own_forward, own))),
        _plain(itertools.chain.from_iterable(map(_values, own))),
    )


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
