"""Capture attention in modelling files that do not use transformers' attention interface.

A `TorchFunctionMode` follows the result of a softmax to its product with the values (matmul, bmm,
einsum), or computes a `scaled_dot_product_attention` step by step.

`run_stepwise` does the same for PyTorch's own multi-head attention
(`F.multi_head_attention_forward`, which `nn.MultiheadAttention` calls). WavLM and the image
encoders of models newer than the first CLIP use it. PyTorch reads the weights of the output
projection without calling its module. mixlens calls that module, so that the projection can be
captured and edited like any other.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from mixlens.capture.attention_call import (
    AttentionCall,
    Listener,
    Visibility,
    additive_mask,
    current_listener,
    find_visible,
)


def einsum_letters(equation: str) -> str | None:
    """Return the einsum letters of batch, head, target, source and channel in the product of
    weights [batch, head, target, source] and values, or None for other products.
    """
    operands, _, result = equation.replace(" ", "").partition("->")
    weights, _, values = operands.partition(",")
    if not all(len(set(part)) == len(part) == 4 for part in (weights, values, result)):
        return None
    batch, head, target, source = list(weights)
    channel = set(values) - set(weights)
    expected = {batch, head, source} | channel, {batch, head, target} | channel
    if len(channel) != 1 or (set(values), set(result)) != expected:
        return None
    return weights + channel.pop()


class SoftmaxTrace(TorchFunctionMode):
    """Follow a softmax through changes of shape to its product with the values."""

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
    _REARRANGED = {Tensor.permute, Tensor.transpose, Tensor.masked_fill, torch.masked_fill}
    _PRODUCTS = {torch.matmul, torch.bmm, Tensor.matmul, Tensor.bmm, Tensor.__matmul__}

    def __init__(self, module: nn.Module) -> None:
        """Capture attention inside `module`."""
        super().__init__()
        self._followed: dict[int, Tensor] = {}  # kept alive so that an id is never reused
        self._visible: Tensor | None = None  # by the targets of the last softmax
        self._module = module

    @functools.cached_property
    def _owners(self) -> dict[int, nn.Linear]:
        """Return a dict from the id of a weight to its linear module."""
        parts = self._module.modules()
        return {id(part.weight): part for part in parts if isinstance(part, nn.Linear)}

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        listener = current_listener()
        if listener is None:
            return func(*args, **kwargs)
        if func is torch.nn.functional.scaled_dot_product_attention:
            return self._taken_apart(listener, *args, **kwargs)
        if func is torch.nn.functional.multi_head_attention_forward:
            return run_stepwise(listener, self._owners, *args, **kwargs)
        followed = bool(args) and isinstance(args[0], Tensor) and id(args[0]) in self._followed
        if followed and func in self._PRODUCTS:
            return self._product(listener, func, args[0], args[1])
        if func is torch.einsum and len(args) == 2 and isinstance(args[1], (list, tuple)):
            args = (args[0], *args[1])
        if func is torch.einsum and len(args) == 3 and id(args[1]) in self._followed:
            letters = einsum_letters(args[0])
            if letters is not None:
                return self._einsum(listener, letters, *args)
            if args[1].dim() > 4:
                return self._blocks(listener, args[1], args[2], func(*args))
        result = func(*args, **kwargs)
        if func in self._SOFTMAX or (followed and func in self._PASSED_ON):
            if isinstance(result, Tensor):
                self._followed[id(result)] = result
                self._follow_mask(func, *args, **kwargs)
        return result

    def _follow_mask(self, func: Any, *args: Any, **kwargs: Any) -> None:
        """Store which sources a softmax sees, until the weights are permuted or masked."""
        if func in self._SOFTMAX:
            scores = args[0] if args else kwargs["input"]
            axis = args[1] if len(args) > 1 else kwargs.get("dim")
            last = axis in (-1, scores.dim() - 1)
            self._visible = find_visible(scores) if last else None
        elif func in self._REARRANGED:
            self._visible = None

    def _product(self, listener: Listener, func: Any, weights: Tensor, values: Tensor) -> Any:
        def by_text(tensor: Tensor) -> Tensor:  # bmm works on [batch * head, ...]
            if tensor.dim() != 3 or tensor.shape[0] % listener.batch:
                return tensor
            return tensor.reshape(listener.batch, -1, *tensor.shape[-2:])

        if weights.dim() > 4:
            return self._blocks(listener, weights, values, func(weights, values))
        if weights.dim() < 3 or values.dim() != weights.dim():
            return func(weights, values)
        edited = listener.values(by_text(values)).reshape(values.shape)
        output = func(weights, edited)
        if by_text(output).dim() == 4:
            call = AttentionCall(
                by_text(weights),
                by_text(edited),
                by_text(output).transpose(1, 2),
                "trace",
                visibility=self._visibility(by_text, by_text(weights)),
            )
            self._followed.clear()
            listener.capture(call)
        return output

    def _visibility(
        self, by_text: Callable[[Tensor], Tensor], weights: Tensor
    ) -> Visibility | None:
        """Return which sources the softmax of these weights saw, or None if the shapes differ."""
        visible, self._visible = self._visible, None
        visible = None if visible is None else by_text(visible)
        return (
            None
            if visible is None or visible.shape != weights.shape
            else Visibility(visible=visible)
        )

    def _blocks(
        self, listener: Listener, weights: Tensor, values: Tensor, output: Tensor
    ) -> Tensor:
        """Capture attention that runs inside windows or blocks, so that an error can describe it.

        The weights of such attention have an additional axis for the windows or blocks.
        """
        self._followed.clear()
        listener.capture(AttentionCall(weights, values, output, "trace"))
        return output

    def _einsum(
        self, listener: Listener, letters: str, equation: str, weights: Tensor, values: Tensor
    ) -> Any:
        batch, head, target, source, channel = list(letters)
        of_values, result = equation.replace(" ", "").split(",")[1].split("->")
        plain = batch + head + source + channel
        edited = listener.values(torch.einsum(f"{of_values}->{plain}", values))
        output = torch.einsum(equation, weights, torch.einsum(f"{plain}->{of_values}", edited))
        mixed = torch.einsum(f"{result}->{batch}{target}{head}{channel}", output)
        self._followed.clear()
        visibility = self._visibility(lambda tensor: tensor, weights)
        listener.capture(AttentionCall(weights, edited, mixed, "trace", visibility=visibility))
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
        visibility = Visibility()
        if attn_mask is not None:
            scores = scores + additive_mask(attn_mask, scores)
            visible = attn_mask if attn_mask.dtype == torch.bool else find_visible(attn_mask)
            visibility = Visibility(visible=visible)
        weights = torch.softmax(scores, -1)
        blank = visibility.blank
        weights = weights if blank is None else weights.masked_fill(blank, 0)
        output = weights @ values
        listener.capture(
            AttentionCall(weights, value, output.transpose(1, 2), "trace", visibility=visibility)
        )
        return output


_SIGNATURE = inspect.signature(functional.multi_head_attention_forward)
_BEYOND = ("bias_k", "bias_v", "add_zero_attn", "static_k", "static_v")  # sources without a token


def run_stepwise(
    listener: Listener, owners: dict[int, nn.Linear], *args: Any, **kwargs: Any
) -> Any:
    """Run PyTorch's multi-head attention step by step, and capture the call.

    Return the output and the weights, like the original function. `owners` is a dict from the id of
    a weight to its linear module.
    """
    bound = _SIGNATURE.bind(*args, **kwargs)
    bound.apply_defaults()
    arguments = bound.arguments
    owner = owners.get(id(arguments["out_proj_weight"]))
    extended = any(arguments[name] is not None and arguments[name] is not False for name in _BEYOND)
    if owner is None or extended or arguments["query"].dim() != 3:
        return functional.multi_head_attention_forward(*args, **kwargs)
    query, key, value = (tensor.transpose(0, 1) for tensor in _project(arguments))
    heads = arguments["num_heads"]
    query, key, value = (
        tensor.reshape(*tensor.shape[:2], heads, -1).transpose(1, 2)
        for tensor in (query, key, value)
    )
    value = listener.values(value)
    mask = _mask(arguments, query, key)
    scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5 + mask
    weights = torch.softmax(scores, -1)
    output = (weights @ value).transpose(1, 2)
    visibility = Visibility(mask if mask.dim() else None)
    listener.capture(AttentionCall(weights, value, output, "trace", visibility=visibility))
    projected = owner(output.flatten(2)).transpose(0, 1)
    if not arguments["need_weights"]:
        return projected, None
    return projected, weights.mean(1) if arguments["average_attn_weights"] else weights


def _project(arguments: dict[str, Any]) -> list[Tensor]:
    """Return the projected queries, keys and values, each [tokens, batch, channel]."""
    if arguments["use_separate_proj_weight"]:
        maps = [arguments[f"{name}_proj_weight"] for name in "qkv"]
    else:
        maps = list(arguments["in_proj_weight"].chunk(3))
    bias = arguments["in_proj_bias"]
    shifts = (None,) * 3 if bias is None else bias.chunk(3)
    tensors = (arguments["query"], arguments["key"], arguments["value"])
    return [functional.linear(*part) for part in zip(tensors, maps, shifts, strict=True)]


def _mask(arguments: dict[str, Any], query: Tensor, key: Tensor) -> Tensor:
    """Return the sum of the attention mask and the padding mask, in additive form."""
    shape = (*query.shape[:3], key.shape[2])
    total = query.new_zeros(())
    mask, padding = arguments["attn_mask"], arguments["key_padding_mask"]
    if mask is not None:
        mask = _additive(mask, query)
        total = mask.view(shape) if mask.dim() == 3 and len(mask) > 1 else mask
    if padding is not None:
        total = total + _additive(padding, query)[:, None, None]
    return total


def _additive(mask: Tensor, like: Tensor) -> Tensor:
    """Return a mask in additive form. In a boolean mask, True means hidden."""
    if mask.dtype != torch.bool:
        return mask.to(like.dtype)
    return torch.zeros_like(mask, dtype=like.dtype).masked_fill(mask, float("-inf"))
