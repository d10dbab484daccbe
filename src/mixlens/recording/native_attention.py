"""Overhearing the attention that a model was loaded with (sdpa, flash): queries, keys and values.

For rows of a long prompt, whose full attention weights would not fit.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import Tensor, nn

NativeCall = Callable[[nn.Module, Tensor, Tensor, Tensor, Any, Tensor, Mapping[str, Any]], None]
"""Gets a module's query, key, value, mask, output and the other arguments of its attention."""

_native_listener: contextvars.ContextVar[NativeCall | None] = contextvars.ContextVar(
    "mixlens_native_listener", default=None
)
_handed_out = 0
_lock = threading.Lock()
_original: Callable[..., Any]


@functools.lru_cache(maxsize=32)
def _names(function: Callable[..., Any]) -> list[str]:
    """The names of an attention function's arguments after the module."""
    return list(inspect.signature(function).parameters)[1:]


def _reporting(function: Callable[..., Any], hear: NativeCall) -> Callable[..., Any]:
    """The model's own attention function, which then reports what it did."""
    names = _names(function)

    def attention(module: nn.Module, *args: Any, **options: Any) -> Any:
        result = function(module, *args, **options)
        named = dict(zip(names, args, strict=False)) | options
        query, key, value, mask = map(named.pop, names[:4])
        hear(module, query, key, value, mask, result[0], named)
        return result

    return attention


@contextlib.contextmanager
def native_attention(hear: NativeCall) -> Iterator[None]:
    """While open, every attention function that transformers hands out reports each of its calls.

    The model keeps the implementation that it was loaded with (sdpa, flash), and its configs.
    """
    from transformers import AttentionInterface

    global _handed_out, _original
    token = _native_listener.set(hear)
    with _lock:
        _handed_out += 1
        if _handed_out == 1:
            _original = AttentionInterface.get_interface
            AttentionInterface.get_interface = _hand_out  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        _native_listener.reset(token)
        with _lock:
            _handed_out -= 1
            if _handed_out == 0:
                AttentionInterface.get_interface = _original  # type: ignore[method-assign]


def _hand_out(interface: Any, name: str, default: Any) -> Any:
    function = _original(interface, name, default)
    hear = _native_listener.get()
    return function if hear is None else _reporting(function, hear)
