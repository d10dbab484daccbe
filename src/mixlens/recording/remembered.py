"""What was found out about a module, remembered until its numbers change."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from torch import nn

Found = TypeVar("Found")


def numbers_of(module: nn.Module) -> Hashable:
    """Changes when a parameter or a buffer is written to, replaced or moved."""
    tensors = (*module.parameters(), *module.buffers())
    return tuple((id(tensor), tensor._version, tensor.data_ptr()) for tensor in tensors)


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
        before, found = self._known.get(module, (None, {}))
        if before != now:
            found = {}
            self._known[module] = (now, found)
        if key not in found:
            found[key] = find()
        return found[key]
