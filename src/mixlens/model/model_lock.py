"""Per-model lock.

While a model is recorded or a layer runs again, hooks and configs of the model object are changed
and put back. A second thread would run into them, so it waits. Different models do not wait for
each other.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator

from torch import nn

_locks: weakref.WeakKeyDictionary[nn.Module, threading.RLock] = weakref.WeakKeyDictionary()
_guard = threading.Lock()


@contextlib.contextmanager
def turn(model: nn.Module) -> Iterator[None]:
    """Waits until no other thread works with the model; the same thread may come again."""
    with _guard:
        lock = _locks.setdefault(model, threading.RLock())
    with lock:
        yield
