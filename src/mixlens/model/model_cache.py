"""Per-module cache, cleared when weights, submodules, code or attributes change."""

from __future__ import annotations

import contextlib
import contextvars
import weakref
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from torch import nn

from mixlens.model.fingerprint import Fingerprint, ModelState, fingerprint
from mixlens.model.model_lock import turn
from mixlens.model.uncompiled import uncompiled

Found = TypeVar("Found")


@dataclass(frozen=True)
class _Look:
    """The state of a model while nobody changes it, and the fingerprints of its submodules (by
    id).
    """

    model: int  # its id
    state: ModelState
    known: dict[int, Hashable]


_look: contextvars.ContextVar[_Look | None] = contextvars.ContextVar("mixlens_look", default=None)


_since: weakref.WeakKeyDictionary[nn.Module, tuple[Fingerprint, dict[int, Hashable]]] = (
    weakref.WeakKeyDictionary()
)


@contextlib.contextmanager
def weights_unchanged(model: nn.Module) -> Iterator[None]:
    """Assume that nobody changes a model while the context is open: its fingerprint is computed
    once, not for every layer, and those of its submodules only if the whole model has changed since
    the last time. Compiled code is removed, so that a model has the same fingerprint before and
    after `torch.compile`.
    """
    look = _look.get()
    if look is not None and look.model == id(model):
        yield
        return
    with uncompiled(model):
        with turn(model):  # a different thread may have changed settings and hooks
            state = ModelState.of(model)
        before, known = _since.get(model, (None, {}))
        away = 0 in state.numbers.pointers  # offloaded, so their numbers are not read
        if before is None or before != state.numbers or away:
            known = {id(model): state.numbers}
            _since[model] = (state.numbers, known)
        else:
            state = replace(state, numbers=before)  # equal; comparing the same object is instant
        token = _look.set(_Look(id(model), state, known))
        try:
            yield
        finally:
            _look.reset(token)


def state_of(model: nn.Module) -> ModelState:
    """Return the state of a model, or the one at the beginning while it cannot change."""
    with weights_unchanged(model):
        look = _look.get()
        assert look is not None
        return look.state


def numbers_of(module: nn.Module) -> Hashable:
    """Return the fingerprint of a module, see `fingerprint`."""
    look = _look.get()
    if look is not None and id(module) in look.known:
        return look.known[id(module)]
    numbers = fingerprint(module)
    if look is not None:
        look.known[id(module)] = numbers
    return numbers


class Remembered(Generic[Found]):
    """A cache for one kind of result. It keeps no module alive."""

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[
            nn.Module, tuple[Hashable, dict[Hashable, Found]]
        ] = weakref.WeakKeyDictionary()

    def of(
        self, module: nn.Module, key: Hashable, find: Callable[[], Found], state: Hashable = None
    ) -> Found:
        """Return the result of `find` for `key`. `state` is a further condition of validity besides
        the module's numbers.
        """
        now = (numbers_of(module), state)
        before, known = self._known.get(module, (None, {}))
        if before != now:
            known = {}
            self._known[module] = (now, known)
        if key not in known:
            known[key] = find()
        return known[key]
