"""Capture the inputs of the attention implementation that a model was loaded with (sdpa, flash), or
hide pairs of tokens from this implementation.

`native_attention` is for a few targets of a long prompt, whose full attention weights would not fit
into memory. `hidden_pairs` sets attention scores to minus infinity before the softmax: through the
mask of transformers' attention functions, and in modelling files that compute attention themselves
through the argument of the softmax.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from mixlens.capture.attention_call import find_visible
from mixlens.errors import UnsupportedModel


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
    queries: int | None = None  # the number of queries, if `query` holds only some of them

    def detach(self) -> NativeCall:
        """Return the same call with tensors that do not belong to the autograd graph."""
        tensors = {name: getattr(self, name).detach() for name in ("query", "key", "value")}
        return replace(self, **tensors, output=self.output.detach())


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
    """Wrap an attention function so that every call is passed to `report`."""
    names = _names(function)

    def attention(module: nn.Module, *args: Any, **options: Any) -> Any:
        result = function(module, *args, **options)
        arguments = dict(zip(names, args, strict=False)) | options
        query, key, value, mask = map(arguments.pop, names[:4])
        report(NativeCall(module, query, key, value, mask, result[0], arguments, is_eager))
        return result

    return attention


Hide = Callable[[int, int, int], Bool[Tensor, "batch target source"] | None]
"""Gets the number of the attention call and its numbers of targets and sources; returns the pairs
to hide.
"""

HidePairs = Callable[[Tensor, Tensor], Tensor | None]  # the same, of two tensors [..., token, any]
_hide: contextvars.ContextVar[HidePairs | None] = contextvars.ContextVar(
    "mixlens_hide", default=None
)


def _hiding(function: Callable[..., Any], hide: HidePairs, is_eager: bool) -> Callable[..., Any]:
    """Wrap an attention function so that the pairs of tokens returned by `hide` are hidden."""
    names = _names(function)

    def attention(module: nn.Module, *args: Any, **options: Any) -> Any:
        arguments = dict(zip(names, args, strict=False)) | options
        query, key = arguments[names[0]], arguments[names[1]]
        pairs = hide(query, key)
        if pairs is None:
            return _alone(function, module, *args, **options)
        is_causal = arguments.get("is_causal")
        is_causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        mask = arguments.pop(names[3], None)
        fused = not is_eager and function.__name__ == "sdpa_attention_forward"
        if not is_eager and not fused:
            raise UnsupportedModel(
                f"{function.__name__} does not accept a mask of token pairs. Load the model with"
                " attn_implementation='sdpa' or 'eager'."
            )
        triangle = fused and bool(is_causal)
        hidden = _hidden(mask, pairs, query, key, triangle)
        return _alone(function, module, **arguments, **{names[3]: hidden})

    return attention


def _alone(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Call an attention function. Its own softmax is not another attention call."""
    token = _hide.set(None)
    try:
        return function(*args, **options)
    finally:
        _hide.reset(token)


class _HiddenFromSoftmax(TorchFunctionMode):
    """Hide pairs in every softmax of scores [batch, head, target, source], and in PyTorch's fused
    attention.
    """

    _SOFTMAX = {torch.softmax, functional.softmax, Tensor.softmax}
    _FUSED = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        arguments, hide = dict(kwargs or {}), _hide.get()
        if hide is None:
            return func(*args, **arguments)
        if func is functional.scaled_dot_product_attention:
            arguments |= dict(zip(self._FUSED, args, strict=False))
            query, key = arguments["query"], arguments["key"]
            pairs = hide(query, key)
            if pairs is not None:
                mask, triangle = arguments.get("attn_mask"), bool(arguments.get("is_causal"))
                arguments["attn_mask"] = _hidden(mask, pairs, query, key, triangle)
                arguments["is_causal"] = False
            return func(**arguments)
        if func in self._SOFTMAX:
            arguments |= dict(zip(("input", "dim"), args, strict=False))
            args = (_hidden_scores(arguments.pop("input"), arguments.get("dim"), hide), *args[2:])
        return func(*args, **arguments)


def _hidden_scores(scores: Tensor, axis: Any, hide: HidePairs) -> Tensor:
    """Set the scores of hidden pairs to minus infinity. Scores of other shapes are returned
    unchanged: they are not those of attention over tokens.
    """
    if scores.dim() != 4 or axis not in (-1, 3):
        return scores
    pairs = hide(scores, scores.transpose(-1, -2))
    if pairs is None:
        return scores
    sees = find_visible(scores)
    _require_visible(sees, sees & ~pairs[:, None])
    return scores.masked_fill(pairs[:, None], -torch.inf)


def _hidden(mask: Any, pairs: Tensor, query: Tensor, key: Tensor, triangle: bool) -> Tensor:
    """Return a mask that also hides these pairs.

    If `mask` is None, start from a causal mask with `triangle`, as PyTorch's fused attention does
    in a causal module. Otherwise start from a mask that hides nothing, as eager code does.
    """
    hidden = pairs[:, None]
    if mask is None:
        visible = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device)
        mask = (
            visible.tril()[None, None] if triangle and query.shape[2] > 1 else visible[None, None]
        )
        mask = mask if triangle else torch.zeros_like(mask, dtype=query.dtype)
    if not isinstance(mask, Tensor) or mask.dim() != 4 or mask.shape[-1] != key.shape[2]:
        raise UnsupportedModel(
            "The attention mask of this model has no entry for each pair of tokens, so pairs cannot"
            " be hidden. Use the method leave_one_out."
        )
    if mask.dtype == torch.bool:
        sees, still = mask, mask & ~hidden
    else:
        lowest = max(torch.finfo(kind).min for kind in (mask.dtype, torch.float32))
        sees, still = mask > lowest / 2, (mask > lowest / 2) & ~hidden
    _require_visible(sees, still)
    return still if mask.dtype == torch.bool else mask.masked_fill(hidden, lowest)


def _require_visible(sees: Tensor, still: Tensor) -> None:
    if bool((sees.any(-1) & ~still.any(-1)).any()):
        raise NothingVisible


class NothingVisible(Exception):
    """Raised if a mask hides all sources of a target."""


@contextlib.contextmanager
def hidden_pairs(hide: Hide, backend: str) -> Iterator[None]:
    """While the context is open, hide the pairs of target and source that `hide` returns.

    Attention calls are counted from 0. If `backend`, which captures the attention of the model,
    includes the trace of softmaxes, each softmax of scores [batch, head, target, source] outside
    transformers' attention functions counts as one.

    Raises `NothingVisible` if a target would see no source, and `UnsupportedModel` if the attention
    of the model does not accept a mask of token pairs.
    """
    token = _hide.set(_number_calls(hide))
    try:
        with (
            _handing_out(),
            _HiddenFromSoftmax() if "trace" in backend else contextlib.nullcontext(),
        ):
            yield
    finally:
        _hide.reset(token)


def _number_calls(hide: Hide) -> HidePairs:
    numbers = itertools.count()

    def pairs(query: Tensor, key: Tensor) -> Tensor | None:
        hidden = hide(next(numbers), int(query.shape[2]), int(key.shape[2]))
        return None if hidden is None else hidden.to(query.device)

    return pairs


@contextlib.contextmanager
def native_attention(report: Report) -> Iterator[None]:
    """Pass every call of transformers' attention functions to `report` while the context is open.

    The model keeps its attention implementation (sdpa, flash) and its configs.
    """
    token = _native_listener.set(report)
    try:
        with _handing_out():
            yield
    finally:
        _native_listener.reset(token)


@contextlib.contextmanager
def _handing_out() -> Iterator[None]:
    """Wrap the attention functions that transformers looks up, while any thread needs this."""
    from transformers import AttentionInterface

    global _handed_out, _original
    with _lock:
        _handed_out += 1
        if _handed_out == 1:
            _original = AttentionInterface.get_interface
            AttentionInterface.get_interface = _hand_out  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        with _lock:
            _handed_out -= 1
            if _handed_out == 0:
                AttentionInterface.get_interface = _original  # type: ignore[method-assign]


def _hand_out(interface: Any, name: str, default: Any) -> Any:
    function = _original(interface, name, default)
    report, hide = _native_listener.get(), _hide.get()
    if hide is not None:
        return _hiding(function, hide, function is default)
    return function if report is None else _reporting(function, report, function is default)
