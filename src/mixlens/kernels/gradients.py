"""Compute gradients of outputs with respect to hidden states: plain, averaged over noisy copies, or
along paths.

The model is represented by a function `value(hidden, rows)` of the hidden states that enter a
layer. `hidden` has the shape [copies, token, d_model], and `rows` contains the index of each copy's
text. The function returns one number per copy: the output to explain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from mixlens.errors import UnsupportedModel
from mixlens.kernels.chunks import split_chunks

Hidden = Float[Tensor, "copies token d_model"]
Value = Callable[[Hidden, Int[Tensor, " copies"]], Float[Tensor, " copies"]]


def gradient(value: Value, hidden: Hidden, texts: Int[Tensor, " copies"]) -> Hidden:
    """Return the gradient of each copy's output with respect to the hidden states of that copy."""
    with torch.enable_grad():
        leaf = hidden.detach().clone().requires_grad_()
        slope = slope_of(value(leaf, texts).sum(), leaf)
    if slope is None:
        raise UnsupportedModel(no_gradient("the hidden states"))
    return slope


def slope_of(number: Tensor, leaf: Tensor) -> Tensor | None:
    """Return the gradient of a number with respect to a tensor.

    Return None if the graph is detached or the number does not depend on the tensor. For example, a
    class score of CANINE does not depend on the states of its last characters.
    """
    if not number.requires_grad:
        return None
    return torch.autograd.grad(number, leaf, allow_unused=True)[0]


def no_gradient(place: str) -> str:
    """Return the error message for an output whose gradient does not reach `place`."""
    return (
        f"no gradient reaches {place} from this output. Either the model detaches a tensor, or "
        "its output does not depend on these tokens"
    )


def average_noisy_gradients(
    value: Value,
    hidden: Hidden,
    explain: Callable[[Hidden, Hidden], Hidden],
    lengths: Sequence[int],
    *,
    smooth: int,
    noise: float,
    seed: int,
    size: int,
) -> Hidden:
    """Return the mean of `explain(gradient, hidden)` over copies of `hidden` with Gaussian noise
    added to all tokens except padding.

    This is SmoothGrad (Smilkov et al. 2017). The standard deviation of the noise is `noise` times
    the range of values in each text.
    """
    texts = torch.arange(len(hidden), device=hidden.device)
    total = torch.zeros_like(hidden)
    for text, length in enumerate(lengths):
        # The same for every text, so that a batch changes nothing.
        generator = torch.Generator().manual_seed(seed)
        real = hidden[text, :length]
        noise_draws = torch.randn(smooth, *real.shape, generator=generator, dtype=torch.float64).to(
            real
        )
        copies = hidden[text].repeat(smooth, 1, 1)
        copies[:, :length] += noise_draws * noise * (real.max() - real.min())
        for part in split_chunks(copies, size):
            total[text] += explain(
                gradient(value, part, texts.new_full((len(part),), text)), part
            ).sum(0)
    return total / smooth


def path_mean(value: Value, base: Hidden, hidden: Hidden, *, steps: int, size: int) -> Hidden:
    """Return the mean gradient on the straight path from `base` to `hidden`, by Gauss-Legendre
    quadrature.

    Steps of several texts are batched, up to `size` copies at a time.
    """
    along, share = _quadrature(steps, hidden)
    total, texts = torch.zeros_like(hidden), torch.arange(len(hidden), device=hidden.device)
    for copy in split_chunks(torch.arange(len(hidden) * steps, device=hidden.device), size):
        text_of_copy, step = copy // steps, copy % steps
        points = base[text_of_copy] + along[step, None, None] * (
            hidden[text_of_copy] - base[text_of_copy]
        )
        # A product, not a scattered sum, whose order is not fixed on a GPU.
        step_weights = (texts[:, None] == text_of_copy) * share[step]
        total += torch.einsum("tc,c...->t...", step_weights, gradient(value, points, text_of_copy))
    return total


def token_path_means(
    value: Value, base: Hidden, hidden: Hidden, lengths: Sequence[int], *, steps: int, size: int
) -> Hidden:
    """Return, for each token, its mean gradient along the straight path from `base` to `hidden`.

    Only this token moves along the path; the hidden states of all other tokens stay the same.
    Padding gets zeros.
    """
    along, share = _quadrature(steps, hidden)
    total, device = torch.zeros_like(hidden), hidden.device
    moves = [
        (text_index, token) for text_index, length in enumerate(lengths) for token in range(length)
    ]
    text, place = torch.tensor(moves, device=device).T
    sums = hidden.new_zeros(len(moves), hidden.shape[-1])
    every = torch.arange(len(moves), device=device)
    for copy in split_chunks(torch.arange(len(moves) * steps, device=device), size):
        move, step = copy // steps, copy % steps
        texts, tokens, copies = text[move], place[move], torch.arange(len(copy), device=device)
        points, start = hidden[texts].clone(), base[texts, tokens]
        points[copies, tokens] = start + along[step, None] * (hidden[texts, tokens] - start)
        step_weights = (every[:, None] == move) * share[step]
        sums += step_weights @ gradient(value, points, texts)[copies, tokens]
    total[text, place] = sums
    return total


def path_sum(
    value: Value, points: Float[Tensor, "step copies token width"], *, size: int
) -> Hidden:
    """Return the left Riemann sum of the gradients along a path: each gradient is multiplied by the
    step to the next point.
    """
    steps, texts = len(points) - 1, points.shape[1]
    total, every = torch.zeros_like(points[0]), torch.arange(texts, device=points.device)
    for copy in split_chunks(torch.arange(texts * steps, device=points.device), size):
        text_of_copy, step = copy // steps, copy % steps
        parts = gradient(value, points[step, text_of_copy], text_of_copy)
        parts = parts * (points[step + 1, text_of_copy] - points[step, text_of_copy])
        step_weights = (every[:, None] == text_of_copy).to(parts)
        total += torch.einsum("tc,c...->t...", step_weights, parts)
    return total


def _quadrature(steps: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return quadrature points between 0 and 1, and their weights, which sum to one."""
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    return like.new_tensor((nodes + 1) / 2), like.new_tensor(weights / 2)
