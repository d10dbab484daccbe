"""Per-model lock.

While a model is recorded or a layer runs again, mixlens changes hooks and configs of the model and
restores them. A second thread must wait. Different models do not wait for each other.
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
    """Wait until no other thread works with the model. The same thread may enter again."""
    with _guard:
        lock = _locks.setdefault(model, threading.RLock())
    with lock:
        yield
