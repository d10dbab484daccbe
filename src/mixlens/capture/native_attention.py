"""Capture queries, keys and values of the attention implementation that a model was loaded with
(sdpa, flash).

It is used for a few targets of a long prompt, whose full attention weights would not fit.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn


@dataclass(frozen=True)
class NativeCall:
    """The inputs and the output of an attention function."""

    module: nn.Module
    query: Float[Tensor, "batch head target d_head"]
    key: Float[Tensor, "batch kv_head source d_head"]
    value: Float[Tensor, "batch kv_head source d_value"]
    mask: Any
    output: Tensor  # [batch, target, head, d_value], or any other output
    options: Mapping[str, Any]  # its other arguments
    is_eager: bool = False  # whether it adds any mask


Report = Callable[[NativeCall], None]

_native_listener: contextvars.ContextVar[Report | None] = contextvars.ContextVar(
    "mixlens_native_listener", default=None
)
_handed_out = 0
_lock = threading.Lock()
_original: Callable[..., Any]


@functools.lru_cache(maxsize=32)
def _names(function: Callable[..., Any]) -> list[str]:
    """Return the names of an attention function's arguments after the module."""
    return list(inspect.signature(function).parameters)[1:]


def _reporting(function: Callable[..., Any], report: Report, is_eager: bool) -> Callable[..., Any]:
    """Wrap the model's own attention function to report its calls."""
    names = _names(function)

    def attention(module: nn.Module, *args: Any, **options: Any) -> Any:
        result = function(module, *args, **options)
        named = dict(zip(names, args, strict=False)) | options
        query, key, value, mask = map(named.pop, names[:4])
        report(NativeCall(module, query, key, value, mask, result[0], named, is_eager))
        return result

    return attention


@contextlib.contextmanager
def native_attention(report: Report) -> Iterator[None]:
    """Report each call of every attention function that transformers returns, while the context is
    open.

    The model keeps its attention implementation (sdpa, flash) and its configs.
    """
    from transformers import AttentionInterface

    global _handed_out, _original
    token = _native_listener.set(report)
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
    report = _native_listener.get()
    return function if report is None else _reporting(function, report, function is default)
