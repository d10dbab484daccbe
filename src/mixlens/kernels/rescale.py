"""Compute DeepLIFT's multipliers for transformers: every operation exactly propagates the
*difference* between the input and a baseline.

Shrikumar, Greenside, Kundaje, "Learning Important Features Through Propagating Activation
Differences", ICML 2017. Linear operations keep their gradient; `secants` has the rules for the
others. The attributions then add up to f(x) - f(baseline). This sum is checked, so an operation
without a rule raises an error.

The input and the baseline run as the two halves of one batch. A `TorchFunctionMode` replaces the
operations while the model's own code runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mixlens.kernels.gradients import slope_of
from mixlens.kernels.secants import (
    attention,
    curve,
    log_softmax,
    norm,
    product,
    scaled_by_sigma,
    softmax,
    varies,
)

_CURVES = {
    F.gelu,
    F.relu,
    F.silu,
    F.relu6,
    F.elu,
    F.leaky_relu,
    F.softplus,
    F.hardtanh,
    F.mish,
    F.hardswish,
    F.logsigmoid,
    torch.relu,
    torch.tanh,
    torch.sigmoid,
    torch.exp,
    torch.log,
    torch.erf,
    torch.sqrt,
    torch.rsqrt,
    torch.square,
    torch.pow,
    torch.abs,
    torch.clamp,
    torch.reciprocal,
    Tensor.relu,
    Tensor.tanh,
    Tensor.sigmoid,
    Tensor.exp,
    Tensor.log,
    Tensor.erf,
    Tensor.sqrt,
    Tensor.rsqrt,
    Tensor.square,
    Tensor.pow,
    Tensor.__pow__,
    Tensor.abs,
    Tensor.clamp,
    Tensor.clamp_min,
    Tensor.clamp_max,
    Tensor.reciprocal,
}
_PRODUCTS = {
    torch.mul,
    torch.multiply,
    Tensor.mul,
    Tensor.multiply,
    Tensor.__mul__,
    Tensor.__rmul__,
    torch.matmul,
    torch.bmm,
    Tensor.matmul,
    Tensor.bmm,
    Tensor.__matmul__,
    Tensor.__rmatmul__,
}
_QUOTIENTS = {torch.div, torch.true_divide, Tensor.div, Tensor.true_divide, Tensor.__truediv__}
_SOFTMAX = {F.softmax, torch.softmax, Tensor.softmax}
_LOG_SOFTMAX = {F.log_softmax, torch.log_softmax, Tensor.log_softmax}


class Rescale(TorchFunctionMode):
    """Context that uses DeepLIFT's multipliers as the derivatives of operations.

    The first half of the batch holds the inputs, the second half the baselines.
    """

    def __init__(self) -> None:
        super().__init__()
        self._inverses: dict[
            int, Tensor
        ] = {}  # inverse square roots: the 1 / sigma of norms without a module

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.scaled_dot_product_attention:
            return attention(*args, **kwargs)
        if not args or not any(varies(arg) for arg in args):
            return func(*args, **kwargs)
        x, other = args[0], args[1] if len(args) > 1 else None
        if func in _CURVES and varies(x) and not any(varies(arg) for arg in args[1:]):
            return self._curve(
                func, args, {name: value for name, value in kwargs.items() if name != "inplace"}
            )
        if func in _PRODUCTS and isinstance(x, Tensor) and isinstance(other, Tensor):
            return self._product(func, x, other)
        if (
            func in _QUOTIENTS
            and isinstance(x, Tensor)
            and isinstance(other, Tensor)
            and varies(other)
        ):
            return product(torch.mul, x, curve(torch.reciprocal, other))
        if func in _SOFTMAX | _LOG_SOFTMAX and varies(x):
            rule = softmax if func in _SOFTMAX else log_softmax
            return rule(
                _cast(x, kwargs.get("dtype")), kwargs["dim"] if "dim" in kwargs else args[1]
            )
        if (
            func is torch.einsum
            and len(args) == 3
            and all(isinstance(arg, Tensor) for arg in args[1:])
        ):
            return product(lambda a, b: torch.einsum(args[0], a, b), args[1], args[2])
        if func is F.layer_norm:
            return norm(*_norm_arguments(*args, **kwargs), centred=True)
        if func is F.rms_norm:
            given, shape, weight, eps = _rms_arguments(*args, **kwargs)
            return norm(given, shape, weight, None, eps, centred=False)
        return func(*args, **kwargs)

    def _curve(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        result = curve(lambda tensor: func(tensor, *args[1:], **kwargs), args[0])
        if func in (torch.rsqrt, Tensor.rsqrt):
            self._inverses[id(result)] = result
        return result

    def _product(self, func: Any, a: Tensor, b: Tensor) -> Tensor:
        if varies(a) and id(b) in self._inverses:
            return scaled_by_sigma(a, b)
        if varies(b) and id(a) in self._inverses:
            return scaled_by_sigma(b, a)
        return product(func, a, b)


def _cast(x: Tensor, dtype: torch.dtype | None) -> Tensor:
    return x if dtype is None else x.to(dtype)


def _norm_arguments(
    input: Tensor, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> tuple[Any, ...]:
    return input, normalized_shape, weight, bias, eps


def _rms_arguments(
    input: Tensor, normalized_shape: Any, weight: Any = None, eps: float | None = None
) -> tuple[Any, ...]:
    return input, normalized_shape, weight, torch.finfo(input.dtype).eps if eps is None else eps


@contextlib.contextmanager
def constants(model: nn.Module) -> Iterator[None]:
    """Freeze all parameters in this context.

    Only tensors that depend on the explained representations then require a gradient.
    """
    changed = [parameter for parameter in model.parameters() if parameter.requires_grad]
    try:
        for parameter in changed:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in changed:
            parameter.requires_grad_(True)


def differences_explained(
    value: Callable[[Tensor], Tensor], x: Tensor, baseline: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the attributions, their expected sum value(x) - value(baseline), and the error of
    their actual sum.

    `value` receives the inputs and baselines as one batch and returns one number for each of them.
    """
    both = torch.cat([x, baseline]).detach().requires_grad_()
    with torch.enable_grad():
        with Rescale():
            numbers = value(both)
        upper, lower = numbers.chunk(2)
        slope = slope_of(upper.sum(), both)
    multipliers = torch.zeros_like(x) if slope is None else slope[: len(x)]
    attributions = multipliers * (x - baseline)
    wanted = (upper - lower).detach()
    return attributions, wanted, attributions.flatten(1).sum(1) - wanted
