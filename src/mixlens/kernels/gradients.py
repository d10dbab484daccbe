"""Gradients of explained outputs with respect to hidden states: plain, averaged over noisy copies,
and along a straight path.

The model is seen as a function of the hidden states that enter a layer, `value(hidden, rows)`:
[copies, token, d_model] and the text that each copy belongs to -> the explained number of each
copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from mixlens.kernels.chunks import chunked

Hidden = Float[Tensor, "copies token d_model"]
Value = Callable[[Hidden, Int[Tensor, " copies"]], Float[Tensor, " copies"]]


def gradient(value: Value, hidden: Hidden, rows: Int[Tensor, " copies"]) -> Hidden:
    """The gradient of each copy's number with respect to its own hidden states."""
    with torch.enable_grad():
        leaf = hidden.detach().clone().requires_grad_()
        return slope_of(value(leaf, rows).sum(), leaf)


def slope_of(number: Tensor, leaf: Tensor) -> Tensor:
    """The gradient of a number with respect to a tensor: zero if it does not depend on it, as a
    class of CANINE does not depend on the states of its last characters.
    """
    if not number.requires_grad:
        return torch.zeros_like(leaf)
    slope = torch.autograd.grad(number, leaf, allow_unused=True)[0]
    return torch.zeros_like(leaf) if slope is None else slope


def smoothed(
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
    """SmoothGrad (Smilkov et al. 2017): the mean of `explain(gradient, hidden)` over copies with
    Gaussian noise on their real tokens.

    The noise has `noise` times the range of each text's numbers as its standard deviation.
    """
    rows = torch.arange(len(hidden), device=hidden.device)
    total = torch.zeros_like(hidden)
    for row, length in enumerate(lengths):
        # The same for every text, so that a batch changes nothing.
        generator = torch.Generator().manual_seed(seed)
        real = hidden[row, :length]
        drawn = torch.randn(smooth, *real.shape, generator=generator, dtype=torch.float64).to(real)
        copies = hidden[row].repeat(smooth, 1, 1)
        copies[:, :length] += drawn * noise * (real.max() - real.min())
        for part in chunked(copies, size):
            total[row] += explain(
                gradient(value, part, rows.new_full((len(part),), row)), part
            ).sum(0)
    return total / smooth


def path_mean(value: Value, base: Hidden, hidden: Hidden, *, steps: int, size: int) -> Hidden:
    """The mean gradient on the straight path from `base` to `hidden`, by Gauss-Legendre quadrature.

    Steps of several texts share a batch of at most `size` copies.
    """
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    along = torch.tensor((nodes + 1) / 2, dtype=hidden.dtype, device=hidden.device)
    share = torch.tensor(weights / 2, dtype=hidden.dtype, device=hidden.device)
    total, texts = torch.zeros_like(hidden), torch.arange(len(hidden), device=hidden.device)
    for copy in chunked(torch.arange(len(hidden) * steps, device=hidden.device), size):
        rows, step = copy // steps, copy % steps
        points = base[rows] + along[step, None, None] * (hidden[rows] - base[rows])
        # A product, not a scattered sum: on a GPU the order of the latter is not fixed.
        own = (texts[:, None] == rows) * share[step]
        total += torch.einsum("tc,c...->t...", own, gradient(value, points, rows))
    return total
