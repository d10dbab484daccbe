"""Gradients of explained outputs with respect to hidden states, plain and averaged over noisy
copies.

The model is seen as a function of the hidden states that enter a layer, `value(hidden, rows)`:
[copies, token, d_model] and the text that each copy belongs to -> the explained number of each
copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mixlens.kernels.chunks import pieces

Hidden = Float[Tensor, "copies token d_model"]
Value = Callable[[Hidden, Int[Tensor, " copies"]], Float[Tensor, " copies"]]


def gradient(value: Value, hidden: Hidden, rows: Int[Tensor, " copies"]) -> Hidden:
    """The gradient of each copy's number with respect to its own hidden states."""
    with torch.enable_grad():
        leaf = hidden.detach().clone().requires_grad_()
        found: Tensor = torch.autograd.grad(value(leaf, rows).sum(), leaf)[0]
    return found


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
    """SmoothGrad (Smilkov et al.

    2017): the mean of `explain(gradient, hidden)` over copies with Gaussian noise on their real
    tokens.

    The noise has `noise` times the range of each text's numbers as its standard deviation. Without
    copies: the plain gradient.
    """
    rows = torch.arange(len(hidden), device=hidden.device)
    if smooth == 0:
        return explain(gradient(value, hidden, rows), hidden)
    total = torch.zeros_like(hidden)
    for row, length in enumerate(lengths):
        generator = torch.Generator().manual_seed(
            seed
        )  # the same for every text, so that a batch changes nothing
        real = hidden[row, :length]
        drawn = torch.randn(smooth, *real.shape, generator=generator, dtype=torch.float64).to(real)
        copies = hidden[row].repeat(smooth, 1, 1)
        copies[:, :length] += drawn * noise * (real.max() - real.min())
        for part in pieces(copies, size):
            total[row] += explain(
                gradient(value, part, rows.new_full((len(part),), row)), part
            ).sum(0)
    return total / smooth
