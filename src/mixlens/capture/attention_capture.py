"""Capture attention weights and values while a transformers model runs. Only this module and
`native_attention` hook into transformers' attention.

There are two backends, which undo all their changes when the context closes:

* `interface`: an attention function registered with transformers' own `AttentionInterface`. It
  calls the eager function of the modelling file, so soft-caps, attention sinks, position biases,
  sliding windows and grouped heads stay exact. A mask is converted to the additive form that eager
  code expects, and keeps the meaning that it has for the implementation that the model was loaded
  with: eager code adds a boolean mask as 0 and 1, while torch's fused attention reads it as
  visibility, returns zeros for a target that sees nothing and, without a mask, hides later tokens
  if the module is causal.
* `trace`: `softmax_trace`, for modelling files that do not use the interface.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from mixlens.capture.attention_call import (
    AttentionCall,
    Listener,
    Visibility,
    additive_mask,
    current_listener,
    listening,
)
from mixlens.capture.softmax_trace import SoftmaxTrace
from mixlens.errors import UnsupportedModel
from mixlens.model.module_walk import BareProducts, configs_of, makes_bare_products
from mixlens.model.restore_model import plain_experts

BACKENDS = ("interface", "trace", "interface+trace")  # in the order in which they are tried


@dataclass(frozen=True)
class _Mask:
    """A mask in additive form, and the sources that it leaves visible to each target."""

    added: Any
    visibility: Visibility | None  # None if unknown
    blank: Bool[Tensor, "texts heads target 1"] | None = None  # targets whose output is zero


_Interpret = Callable[[Any, Tensor, Tensor, bool], _Mask]
"""Takes a mask, the query, the key and whether the module is causal."""


def _interpret_once(
    interpret: _Interpret,
    mask: Any,
    query: Tensor,
    key: Tensor,
    is_causal: bool,
    listener: Listener | None,
) -> _Mask:
    """Interpret a mask with `interpret`, only once for all layers that share the mask."""
    if listener is None:
        return interpret(mask, query, key, is_causal)
    sizes = query.shape[2], key.shape[2]
    key_of_mask: Hashable = (id(mask), is_causal, sizes, query.dtype, query.device)
    if key_of_mask not in listener.masks:  # the mask is kept, so that its id stays unique
        listener.masks[key_of_mask] = mask, interpret(mask, query, key, is_causal)
    meaning: _Mask = listener.masks[key_of_mask][1]
    return meaning


def _as_given(mask: Any, query: Tensor, key: Tensor, is_causal: bool) -> _Mask:
    """Return the mask as eager code reads it: a boolean mask is added as 0 and 1."""
    if isinstance(mask, Tensor) and mask.dtype == torch.bool:
        mask = mask.to(query.dtype)
    added = additive_mask(mask, query)
    return _Mask(added, _visibility(added, key))


def _as_seen(mask: Any, query: Tensor, key: Tensor, is_causal: bool) -> _Mask:
    """Return the mask in additive form. In a boolean mask, True means visible."""
    added = additive_mask(mask, query)
    return _Mask(added, _visibility(added, key))


def _as_fused(mask: Any, query: Tensor, key: Tensor, is_causal: bool) -> _Mask:
    """Return the mask as PyTorch's fused attention reads it."""
    triangle = mask is None and is_causal and query.shape[2] > 1
    if triangle:
        shape = (1, 1, query.shape[2], key.shape[2])
        mask = torch.ones(shape, dtype=torch.bool, device=query.device).tril()
    if not isinstance(mask, Tensor):
        return _Mask(mask, _visibility(mask, key))
    if mask.dtype == torch.bool:
        visibility = Visibility(visible=mask[..., : key.shape[2]], triangle=triangle)
    elif mask.is_floating_point():
        visibility = Visibility(mask[..., : key.shape[2]])
    else:  # the model's own attention raises this too
        raise TypeError(
            f"attention_mask has dtype {mask.dtype}. Pass booleans or floats, as torch requires."
        )
    return _Mask(additive_mask(mask, query), visibility, visibility.blank)


def _visibility(added: Any, key: Tensor) -> Visibility | None:
    if added is None:
        return Visibility()
    return Visibility(added[..., : key.shape[2]]) if isinstance(added, Tensor) else None


def _eager_function(module: nn.Module) -> Callable[..., tuple[Tensor, Tensor | None]]:
    for cls in type(module).__mro__:
        function = getattr(sys.modules.get(cls.__module__), "eager_attention_forward", None)
        if function is not None:
            return function  # type: ignore[no-any-return]
    raise UnsupportedModel(
        f"{type(module).__name__} has no eager attention function in its modelling file. Load "
        "a different model class."
    )


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any,
    *args: Any,
    interpret: _Interpret,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """Run the modelling file's own attention function and capture it."""
    listener = current_listener()
    if listener is not None:
        value = listener.values(value)
    is_causal = kwargs.get("is_causal")
    is_causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    mask = _interpret_once(interpret, attention_mask, query, key, bool(is_causal), listener)
    with listening(None):  # the eager function is captured here, once
        output, weights = _eager_function(module)(
            module, query, key, value, mask.added, *args, **kwargs
        )
    if weights is not None and mask.blank is not None:
        weights = weights.masked_fill(mask.blank, 0)
        output = output.masked_fill(mask.blank.transpose(1, 2), 0)
    if listener is not None and weights is not None:
        call = AttentionCall(weights, value, output, "interface", visibility=mask.visibility)
        listener.capture(call)
    return output, weights


# The name of our attention function, by the implementation that a model was loaded with. None of
# them may contain the name of an implementation, because modelling files search for those.
_NAMES = {"eager": "mixlens_added", "sdpa": "mixlens_fused"}
_OTHERWISE = "mixlens"


_registrations = 0
_registration_lock = threading.Lock()


@contextlib.contextmanager
def _register_functions() -> Iterator[None]:
    """Register mixlens' attention and mask functions while any thread captures attention."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, eager_mask, sdpa_mask

    ways: dict[str, tuple[_Interpret, Callable[..., Any]]] = {
        _NAMES["eager"]: (_as_given, eager_mask),
        _NAMES["sdpa"]: (_as_fused, sdpa_mask),
        _OTHERWISE: (_as_seen, eager_mask),
    }
    global _registrations
    with _registration_lock:
        _registrations += 1
        if _registrations == 1:
            for name, (interpret, make_mask) in ways.items():
                attention = functools.partial(_attention, interpret=interpret)
                AttentionInterface.register(name, attention)
                # Without a mask function of that name every mask is silently None, and causal
                # models see the future.
                AttentionMaskInterface.register(name, make_mask)
    try:
        yield
    finally:
        with _registration_lock:
            _registrations -= 1
            if _registrations == 0:
                for name in ways:
                    AttentionInterface._global_mapping.pop(name, None)
                    AttentionMaskInterface._global_mapping.pop(name, None)


@contextlib.contextmanager
def _switch_attention(module: nn.Module) -> Iterator[None]:
    """Select mixlens' attention function in the configs of a model or layer, until the context
    closes.
    """
    # `set_attn_implementation` does not reach all configs of composite models
    before = [
        (config, config._attn_implementation_internal)
        for config in configs_of(module)
        if hasattr(config, "_attn_implementation_internal")
    ]
    try:
        for config, implementation in before:
            if not str(implementation).startswith(_OTHERWISE):
                config._attn_implementation_internal = _NAMES.get(implementation, _OTHERWISE)
        yield
    finally:
        for config, implementation in before:
            config._attn_implementation_internal = implementation


@contextlib.contextmanager
def attention_captured(module: nn.Module, backend: str) -> Iterator[None]:
    """Send attention calls inside `module` (a model or one layer) to the current listener.

    All changes are undone when the context closes, even after an exception.
    """
    with contextlib.ExitStack() as stack:
        if "interface" in backend:
            stack.enter_context(_register_functions())
            stack.enter_context(_switch_attention(module))
        stack.enter_context(plain_experts(module))
        if "trace" in backend:
            stack.enter_context(SoftmaxTrace(module))
        if "trace" in backend or makes_bare_products(module):
            stack.enter_context(BareProducts(module))
        yield
