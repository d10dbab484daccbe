"""Compute DeepLIFT's multipliers for transformers: every operation exactly propagates the
*difference* between the input and a baseline.

Shrikumar, Greenside, Kundaje, "Learning Important Features Through Propagating Activation
Differences", ICML 2017. Linear operations keep their gradient. The derivative of a nonlinear
elementwise function is the slope of its secant (the Rescale rule). If both factors of a product
differ between the halves, the difference is divided evenly: d(ab) = da (b + b')/2 + (a + a')/2 db,
as in SHAP's deep explainer. Softmax has its own secant rule. For norms, `scale_by_sigma` explains
the rule for the division by sigma. The attributions then add up to f(x) - f(baseline). This sum is
checked, so an operation without a rule raises an error.

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

_MASKED = (
    -1e9
)  # masks contain the lowest number or minus infinity, whose differences are not numbers


def varies(value: Any) -> bool:
    """Return whether a value is a tensor that depends on the explained representations."""
    return isinstance(value, Tensor) and value.requires_grad


def _with_slope(result: Tensor, linear: Tensor) -> Tensor:
    """Return a tensor with the value of the first argument and the derivative of the second."""
    return result.detach() + (linear - linear.detach())


def curve(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Apply an elementwise function, with the slope of its secant between the two halves as its
    derivative.

    Where the halves coincide, use the ordinary derivative.
    """
    result = function(x)
    if len(x) % 2:
        return result
    a, b = x.detach().chunk(2)
    above, below = result.detach().chunk(2)
    step = a - b
    with torch.enable_grad():
        middle = ((a + b) / 2).requires_grad_()
        tangent: Tensor = torch.autograd.grad(function(middle).sum(), middle)[0]
    tiny = step.abs() <= torch.finfo(x.dtype).eps ** 0.5 * (a.abs() + b.abs())
    slope = torch.where(
        tiny, tangent, (above - below) / torch.where(tiny, torch.ones_like(step), step)
    )
    return _with_slope(result, torch.cat([slope, slope]) * x)


class _EvenShare(torch.autograd.Function):
    """A bilinear function whose derivative is taken at the mean of the two halves of the batch.

    Only the mean of each argument is stored for the backward pass.
    """

    @staticmethod
    def forward(
        ctx: Any, function: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor
    ) -> Tensor:
        ctx.function = function
        ctx.save_for_backward(*(sum(x.chunk(2)) / 2 for x in (a, b)))
        return function(a, b)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        with torch.enable_grad():
            means = [torch.cat([mean, mean]).requires_grad_() for mean in ctx.saved_tensors]
            result = ctx.function(*means)
        return (None, *torch.autograd.grad(result, means, gradients[0]))


def product(function: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor) -> Tensor:
    """Apply a bilinear function, and divide the difference of its results evenly between the two
    arguments.
    """
    if not (varies(a) and varies(b)) or len(a) % 2 or len(b) % 2:
        return function(a, b)
    shared: Tensor = _EvenShare.apply(function, a, b)  # type: ignore[no-untyped-call]
    return shared


def _mean_probabilities(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Return the softmax of the two halves of the batch, and the logarithmic mean of their
    probabilities.
    """
    lowest = max(_MASKED, torch.finfo(x.dtype).min / 2)  # float16 ends at -65504
    x = x.clamp_min(lowest)
    result = F.softmax(x, dim)
    (a, b), (upper, lower) = result.chunk(2), x.chunk(2)
    sizes = torch.logsumexp(x, dim, keepdim=True).chunk(2)
    step = (upper - lower).sub_(sizes[0] - sizes[1])  # of the logarithms of the probabilities
    tiny = step.abs() <= torch.finfo(x.dtype).eps ** 0.5
    mean = (a - b).div_(step.masked_fill_(tiny, 1))
    del step
    mean = torch.where(tiny, (a + b).div_(2), mean)
    return result, mean.masked_fill_(upper == lowest, 0)


class _SoftmaxSecant(torch.autograd.Function):
    """Softmax of the two halves of the batch, with the slope of the secant as its derivative.

    Only the logarithmic mean of the two probabilities is stored for the backward pass.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int) -> Tensor:
        result, mean = _mean_probabilities(x, dim)
        ctx.save_for_backward(mean)
        ctx.dim = dim
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        mean, dim = ctx.saved_tensors[0], ctx.dim
        whole = mean.sum(dim, keepdim=True).clamp_min_(torch.finfo(mean.dtype).tiny)
        passed = [half * mean for half in gradients[0].chunk(2)]
        passed = [
            part.addcmul_(mean, part.sum(dim, keepdim=True) / whole, value=-1) for part in passed
        ]
        return torch.cat(passed), None


def softmax(x: Tensor, dim: int) -> Tensor:
    """Return softmax with the secant as its derivative: dy = m (dx - sum(m dx) / sum(m)).

    This equation is exact. m is the logarithmic mean of the two probabilities.
    """
    if len(x) % 2:
        return F.softmax(x, dim)
    result: Tensor = _SoftmaxSecant.apply(x, dim)  # type: ignore[no-untyped-call]
    return result


def log_softmax(x: Tensor, dim: int) -> Tensor:
    """Return log-softmax with the secant as its derivative: d log y = dx - sum(m dx) / sum(m).

    m is the logarithmic mean of the two probabilities. The equation is exact because sum(m d log y)
    is the difference between two sums of probabilities, which is zero.
    """
    if len(x) % 2:
        return F.log_softmax(x, dim)
    mean = _mean_probabilities(x.detach(), dim)[1]
    shares = mean / mean.sum(dim, keepdim=True).clamp_min(torch.finfo(mean.dtype).tiny)
    shifted = (torch.cat([shares, shares]) * x).sum(dim, keepdim=True)
    return _with_slope(F.log_softmax(x, dim), x - shifted)


def scale_by_sigma(x: Tensor, inverse: Tensor) -> Tensor:
    """Return x / sigma with the derivative d(x / sigma) = dx / sigma + x' d(1 / sigma).

    Here, sigma is computed from the input, and x' is the baseline. Dividing the difference evenly
    would diverge for a baseline of zeros, where sigma is almost zero.
    """
    if len(x) % 2 or len(inverse) % 2:
        return x * inverse
    input_inverse, baseline_x = inverse.detach().chunk(2)[0], x.detach().chunk(2)[1]
    return _with_slope(
        x * inverse,
        x * torch.cat([input_inverse, input_inverse])
        + torch.cat([baseline_x, baseline_x]) * inverse,
    )


def norm(
    x: Tensor, shape: Any, weight: Tensor | None, bias: Tensor | None, eps: float, *, centred: bool
) -> Tensor:
    """Compute a layer norm or RMS norm from elementary operations."""
    dims = tuple(range(-len(shape), 0))
    if centred:
        x = x - x.mean(dims, keepdim=True)
    spread = curve(torch.square, x).mean(dims, keepdim=True)
    result = scale_by_sigma(x, curve(torch.rsqrt, spread + eps))
    result = result if weight is None else result * weight
    return result if bias is None else result + bias


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Compute attention from elementary operations.

    The arguments are those of `F.scaled_dot_product_attention`.
    """
    if enable_gqa:
        repeats = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(repeats, -3), value.repeat_interleave(repeats, -3)
    logits = product(torch.matmul, query, key.transpose(-1, -2)) * (
        query.shape[-1] ** -0.5 if scale is None else scale
    )
    if is_causal:
        attn_mask = torch.ones(logits.shape[-2:], dtype=torch.bool, device=logits.device).tril()
    if attn_mask is not None:
        logits = (
            logits.masked_fill(~attn_mask, float("-inf"))
            if attn_mask.dtype == torch.bool
            else logits + attn_mask
        )
    return product(torch.matmul, softmax(logits, -1), value)


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
            values, shape, weight, eps = _rms_arguments(*args, **kwargs)
            return norm(values, shape, weight, None, eps, centred=False)
        return func(*args, **kwargs)

    def _curve(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        result = curve(lambda tensor: func(tensor, *args[1:], **kwargs), args[0])
        if func in (torch.rsqrt, Tensor.rsqrt):
            self._inverses[id(result)] = result
        return result

    def _product(self, func: Any, a: Tensor, b: Tensor) -> Tensor:
        if varies(a) and id(b) in self._inverses:
            return scale_by_sigma(a, b)
        if varies(b) and id(a) in self._inverses:
            return scale_by_sigma(b, a)
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
    expected = (upper - lower).detach()
    return attributions, expected, attributions.flatten(1).sum(1) - expected
