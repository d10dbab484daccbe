"""Capture of attention internals while a transformers model runs: the only file that touches
transformers' attention.

Two back ends, both undone when their context closes:

* `interface`: an attention function registered with transformers' own `AttentionInterface`. It
  delegates to the eager function of the modelling file that calls it, so soft-caps, sinks, position
  biases, windows and grouped heads stay exact.
* `trace`: for modelling files that do not route through the interface, a `TorchFunctionMode` that
  follows a softmax into the product with the values (matmul, bmm, einsum) or takes a
  `scaled_dot_product_attention` apart.
"""

from __future__ import annotations

import contextlib
import contextvars
import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mixlens.errors import UnsupportedModel

IMPLEMENTATION = "mixlens"
BACKENDS = ("interface", "trace", "interface+trace")  # in the order in which they are tried

ValueEdit = Callable[[int, Tensor], Tensor]
"""Gets the number of the attention call in the layer and its values; returns the values to use."""


@dataclass(frozen=True)
class AttentionCall:
    """What one call of the attention function saw and returned."""

    weights: Tensor  # [batch, head, target, source], after softmax, masks, soft-cap and sinks
    values: Tensor  # [batch, kv head, source, d_head], before grouped heads are repeated
    output: Tensor  # [batch, target, head, d_head]
    backend: str
    product: Tensor | None = None  # A V from weights that were formed again, next to `output`


@dataclass
class Listener:
    """What the attention function does while a context is open."""

    on_call: Callable[[AttentionCall], None] | None = None
    edit_values: ValueEdit | None = None
    batch: int = 1  # rows of the running layer: [batch * head, target, source] products need it
    calls: int = 0

    def values(self, values: Tensor) -> Tensor:
        """The values to use: edited if the listener edits."""
        return values if self.edit_values is None else self.edit_values(self.calls, values)

    def heard(self, call: AttentionCall) -> None:
        """Counts a call and passes it on."""
        self.calls += 1
        if self.on_call is not None:
            self.on_call(call)


_listener: contextvars.ContextVar[Listener | None] = contextvars.ContextVar(
    "mixlens_listener", default=None
)
_in_interface: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "mixlens_in_interface", default=False
)


@contextlib.contextmanager
def listening(listener: Listener) -> Iterator[Listener]:
    """Attention calls in this context go to `listener`."""
    token = _listener.set(listener)
    try:
        yield listener
    finally:
        _listener.reset(token)


# ---------------------------------------------------------------------------------------- interface


def _eager_function(module: nn.Module) -> Callable[..., tuple[Tensor, Tensor | None]]:
    for cls in type(module).__mro__:
        function = getattr(sys.modules.get(cls.__module__), "eager_attention_forward", None)
        if function is not None:
            return function  # type: ignore[no-any-return]
    raise UnsupportedModel(
        f"{type(module).__name__} has no eager attention function in its modelling file"
    )


def _additive(mask: Any, like: Tensor) -> Any:
    """A boolean mask (True = attend) as eager code wants it; eager code would add it as 0 and 1."""
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        return mask
    zero = torch.zeros(mask.shape, dtype=like.dtype, device=like.device)
    return zero.masked_fill(~mask, torch.finfo(like.dtype).min)


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any,
    *args: Any,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """The registered attention function: the modelling file's own, overheard."""
    listener = _listener.get()
    token = _in_interface.set(True)
    try:
        if listener is not None:
            value = listener.values(value)
        output, weights = _eager_function(module)(
            module, query, key, value, _additive(attention_mask, query), *args, **kwargs
        )
    finally:
        _in_interface.reset(token)
    if listener is not None and weights is not None:
        listener.heard(AttentionCall(weights, value, output, "interface"))
    return output, weights


_registrations = 0
_registration_lock = threading.Lock()


@contextlib.contextmanager
def _registered() -> Iterator[None]:
    """Keeps the attention function and its mask maker registered while any thread needs them."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, eager_mask

    global _registrations
    with _registration_lock:
        _registrations += 1
        if _registrations == 1:
            AttentionInterface.register(IMPLEMENTATION, _attention)
            # Without a mask function of that name every mask is silently None and causal models see
            # the future.
            AttentionMaskInterface.register(IMPLEMENTATION, eager_mask)
    try:
        yield
    finally:
        with _registration_lock:
            _registrations -= 1
            if _registrations == 0:
                AttentionInterface._global_mapping.pop(IMPLEMENTATION, None)
                AttentionMaskInterface._global_mapping.pop(IMPLEMENTATION, None)


def _configs(module: nn.Module) -> list[Any]:
    """Every config that any submodule holds: composites hold several that `set_attn_implementation`
    does not reach.
    """
    found = {}
    for part in module.modules():
        config = getattr(part, "config", None)
        if config is not None and hasattr(config, "_attn_implementation_internal"):
            found[id(config)] = config
    return list(found.values())


@contextlib.contextmanager
def _switched(module: nn.Module, attention: bool) -> Iterator[None]:
    """Points the configs of a model (or of one layer) to our attention function and to plain expert
    products.
    """
    before = [
        (
            config,
            config._attn_implementation_internal,
            getattr(config, "_experts_implementation_internal", None),
        )
        for config in _configs(module)
    ]
    try:
        for config, _, experts in before:
            if attention:
                config._attn_implementation_internal = IMPLEMENTATION
            if (
                experts is not None and experts != "eager"
            ):  # grouped_mm rejects float64 and forward derivatives
                config._experts_implementation_internal = "batched_mm"
        yield
    finally:
        for config, implementation, experts in before:
            config._attn_implementation_internal = implementation
            if hasattr(config, "_experts_implementation_internal"):
                config._experts_implementation_internal = experts


def plain_experts(module: nn.Module) -> contextlib.AbstractContextManager[None]:
    """Mixtures of experts computed by plain products, attention left as it is."""
    return _switched(module, attention=False)


# --------------------------------------------------------------------------------------------- rows

NativeCall = Callable[[nn.Module, Tensor, Tensor, Tensor, Any, Tensor, Mapping[str, Any]], None]
"""Gets a module's query, key, value, mask, output and the other arguments of its attention."""

_native_listener: contextvars.ContextVar[NativeCall | None] = contextvars.ContextVar(
    "mixlens_native_listener", default=None
)
_handed_out = 0


def _reporting(function: Callable[..., Any], hear: NativeCall) -> Callable[..., Any]:
    """The model's own attention function, which then reports what it did."""
    names = list(inspect.signature(function).parameters)[5:]

    def attention(
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Any,
        *args: Any,
        **options: Any,
    ) -> Any:
        result = function(module, query, key, value, mask, *args, **options)
        named = dict(zip(names, args, strict=False)) | options
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
    with _registration_lock:
        _handed_out += 1
        if _handed_out == 1:
            _original = AttentionInterface.get_interface
            AttentionInterface.get_interface = _hand_out  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        _native_listener.reset(token)
        with _registration_lock:
            _handed_out -= 1
            if _handed_out == 0:
                AttentionInterface.get_interface = _original  # type: ignore[method-assign]


_original: Callable[..., Any]


def _hand_out(interface: Any, name: str, default: Any) -> Any:
    function = _original(interface, name, default)
    hear = _native_listener.get()
    return function if hear is None else _reporting(function, hear)


# -------------------------------------------------------------------------------------------- trace


class _SoftmaxTrace(TorchFunctionMode):
    """Follows a softmax through shape changes into the product with the values."""

    _SOFTMAX = {torch.softmax, torch.nn.functional.softmax, Tensor.softmax}
    _PASSED_ON = {
        torch.nn.functional.dropout,
        torch.dropout,
        Tensor.view,
        Tensor.reshape,
        Tensor.to,
        Tensor.type,
        Tensor.type_as,
        Tensor.contiguous,
        Tensor.float,
        Tensor.view_as,
        Tensor.permute,
        Tensor.transpose,
        Tensor.clone,
        Tensor.masked_fill,
        torch.masked_fill,
        Tensor.unsqueeze,
    }
    _PRODUCTS = {torch.matmul, torch.bmm, Tensor.matmul, Tensor.bmm, Tensor.__matmul__}

    def __init__(self) -> None:
        super().__init__()
        self._followed: dict[int, Tensor] = {}  # kept alive so that an id is never reused

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        listener = _listener.get()
        if listener is None or _in_interface.get():
            return func(*args, **kwargs)
        if func is torch.nn.functional.scaled_dot_product_attention:
            return self._taken_apart(listener, *args, **kwargs)
        followed = bool(args) and isinstance(args[0], Tensor) and id(args[0]) in self._followed
        if followed and func in self._PRODUCTS:
            return self._product(listener, func, args[0], args[1])
        result = func(*args, **kwargs)
        if func in self._SOFTMAX or (followed and func in self._PASSED_ON):
            if isinstance(result, Tensor):
                self._followed[id(result)] = result
        return result

    def _product(self, listener: Listener, func: Any, weights: Tensor, values: Tensor) -> Any:
        def by_row(tensor: Tensor) -> Tensor:  # bmm works on [batch * head, ...]
            if tensor.dim() != 3 or tensor.shape[0] % listener.batch:
                return tensor
            return tensor.reshape(listener.batch, -1, *tensor.shape[-2:])

        if weights.dim() not in (3, 4) or values.dim() != weights.dim():
            return func(weights, values)
        edited = listener.values(by_row(values)).reshape(values.shape)
        output = func(weights, edited)
        if by_row(output).dim() == 4:
            call = AttentionCall(
                by_row(weights), by_row(edited), by_row(output).transpose(1, 2), "trace"
            )
            self._followed.clear()
            listener.heard(call)
        return output

    def _taken_apart(
        self,
        listener: Listener,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        value = listener.values(value)
        repeats = query.shape[1] // key.shape[1]
        keys, values = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
        scores = (
            query @ keys.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
        )
        if is_causal:
            shape = (query.shape[-2], key.shape[-2])
            attn_mask = torch.ones(shape, dtype=torch.bool, device=query.device).tril()
        if attn_mask is not None:
            scores = scores + _additive(attn_mask, scores)
        weights = torch.softmax(scores, -1)
        output = weights @ values
        listener.heard(AttentionCall(weights, value, output.transpose(1, 2), "trace"))
        return output


# ------------------------------------------------------------------------------------------ context


@contextlib.contextmanager
def overheard(module: nn.Module, backend: str) -> Iterator[None]:
    """While open, attention inside `module` (a model or one layer) reports to the current listener.

    Everything it changes is put back when it closes, also after an exception.
    """
    with contextlib.ExitStack() as stack:
        if "interface" in backend:
            stack.enter_context(_registered())
        stack.enter_context(_switched(module, attention="interface" in backend))
        if "trace" in backend:
            stack.enter_context(_SoftmaxTrace())
        yield
