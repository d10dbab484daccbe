"""Log when a measure falls back to a slower implementation because a layer does not support the
fast one.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from contextvars import ContextVar

from mixlens.recording.layer import Layer

_log = logging.getLogger(__name__)
_collected: ContextVar[dict[str, list[str]] | None] = ContextVar("collected", default=None)


def note_fallback(layer: Layer, reason: str) -> None:
    """Log the reason why a layer does not use the fast implementation."""
    path = layer.structure.path
    _log.debug("layer `%s`: %s", path, reason)
    collected = _collected.get()
    if collected is not None and reason not in collected.setdefault(path, []):
        collected[path].append(reason)


@contextlib.contextmanager
def fallbacks_collected() -> Iterator[dict[str, list[str]]]:
    """Collect the reasons that are logged while the context is open, by path of the layer."""
    collected: dict[str, list[str]] = {}
    token = _collected.set(collected)
    try:
        yield collected
    finally:
        _collected.reset(token)
