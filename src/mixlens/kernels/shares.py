"""Divide a constant vector, such as a bias, among the sources of a target.

In DecompX (Modarressi et al. 2023, section 3.2), a bias is divided among the split vectors to which
it is added, T'_k = T_k + w_k / (sum_k w_k) b, so that they still add up to the full output.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

BIASES = ("absdot", "abssim", "norm", "equal", "cls", "none", "column")
SHIFT = 1e-12  # added to denominators in the released code


def share(
    parts: Float[Tensor, "*targets source width"],
    constant: Float[Tensor, "*targets width"],
    how: str,
    shift: float = 0.0,
) -> Float[Tensor, "*targets source width"]:
    """Add the constant to `parts` in place, divided among the sources by the rule `how`.

    "column" adds the whole constant to the last source, and "none" drops it. If all weights are
    zero, the constant is dropped as well.
    """
    if how == "none":
        return parts
    if how == "column":
        parts[..., -1, :] += constant
        return parts
    weights = _weights(parts, constant, how)
    total = weights.sum(-1, keepdim=True) + shift
    divided = torch.where(total == 0, torch.zeros_like(weights), weights / total)
    return parts.addcmul_(divided[..., None], constant[..., None, :])


def _weights(parts: Tensor, constant: Tensor, how: str) -> Float[Tensor, "*targets source"]:
    if how == "cls":
        first = torch.zeros_like(parts[..., 0])
        first[..., 0] = 1
        return first
    lengths: Tensor = torch.linalg.vector_norm(parts, dim=-1)
    if how == "norm":
        return lengths
    if how == "equal":
        return (lengths != 0).to(parts)
    dots = (parts @ constant[..., None])[..., 0].abs()
    if how == "absdot":
        return dots
    sizes = lengths.clamp_min(1e-8) * torch.linalg.vector_norm(constant, dim=-1)[..., None]
    return torch.where(lengths == 0, torch.zeros_like(dots), dots / sizes.clamp_min(1e-16))
