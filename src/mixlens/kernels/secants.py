"""Define operations whose derivatives exactly propagate the difference between the two halves of a
batch.

Shrikumar, Greenside, Kundaje, "Learning Important Features Through Propagating Activation
Differences", ICML 2017. The derivative of a nonlinear elementwise function is the slope of its
secant (the Rescale rule). If both factors of a product differ between the halves, the difference is
divided evenly: d(ab) = da (b + b')/2 + (a + a')/2 db, as in SHAP's deep explainer. Softmax has its
own secant rule. For norms, `scaled_by_sigma` explains the rule for the division by sigma.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

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
        own: Tensor = torch.autograd.grad(function(middle).sum(), middle)[0]
    tiny = step.abs() <= torch.finfo(x.dtype).eps ** 0.5 * (a.abs() + b.abs())
    slope = torch.where(tiny, own, (above - below) / torch.where(tiny, torch.ones_like(step), step))
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


def scaled_by_sigma(x: Tensor, inverse: Tensor) -> Tensor:
    """Return x / sigma with the derivative d(x / sigma) = dx / sigma + x' d(1 / sigma).

    Here, sigma is computed from the input, and x' is the baseline. Dividing the difference evenly
    would diverge for a baseline of zeros, where sigma is almost zero.
    """
    if len(x) % 2 or len(inverse) % 2:
        return x * inverse
    ours, theirs = inverse.detach().chunk(2)[0], x.detach().chunk(2)[1]
    return _with_slope(
        x * inverse, x * torch.cat([ours, ours]) + torch.cat([theirs, theirs]) * inverse
    )


def norm(
    x: Tensor, shape: Any, weight: Tensor | None, bias: Tensor | None, eps: float, *, centred: bool
) -> Tensor:
    """Compute a layer norm or RMS norm from elementary operations."""
    dims = tuple(range(-len(shape), 0))
    if centred:
        x = x - x.mean(dims, keepdim=True)
    spread = curve(torch.square, x).mean(dims, keepdim=True)
    result = scaled_by_sigma(x, curve(torch.rsqrt, spread + eps))
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
