"""Find the attention weights of smallest norm that are still a distribution and give the same
output.

This is a small quadratic program per target: min ||a'||^2 with a' C = a C and a' >= 0. C includes a
column of ones, which preserves the sum of the weights. Write a' = a0 + N u, where a0 is the
shortest solution without the sign constraint and N is a basis of the left null space of C. This
gives the least-distance problem min ||u||, N u >= -a0, which Lawson & Hanson (Solving Least Squares
Problems, chapter 23.4) reduce to a single non-negative least-squares problem. The algorithm is
exact and ends after finitely many steps.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mixlens.errors import MissingExtra, MixlensError
from mixlens.kernels.projector import tolerance


def scipy_optimize() -> ModuleType:
    """Import and return `scipy.optimize`.

    If SciPy is not installed, raise an error that tells you which extra to install.
    """
    try:
        import scipy.optimize
    except ImportError as error:
        raise MissingExtra("scipy") from error
    return scipy.optimize


def left_null_basis(
    columns: Float[np.ndarray, "source k"], least: float
) -> Float[np.ndarray, "source free"]:
    """Return an orthonormal basis of the row vectors u with u C = 0."""
    left, sizes, _ = np.linalg.svd(columns, full_matrices=True)
    rank = int((sizes > least * sizes[0]).sum()) if len(sizes) else 0
    return left[:, rank:]


def shortest_rows(
    weights: Float[Tensor, "batch head target source"],
    columns: Float[Tensor, "batch head source k"],
    visibility: Bool[Tensor, "batch heads_or_one target source"],
) -> Float[Tensor, "batch head target source"]:
    """Return the non-negative weights of smallest norm that have the same product with `columns`.

    Each target uses only the sources that it sees.
    """
    least = tolerance(weights.dtype)
    result = torch.zeros_like(weights)
    text_weights, matrices, visible = (
        tensor.detach().cpu().numpy()
        for tensor in (weights.double(), columns, visibility.expand(weights.shape))
    )
    for text, head in np.ndindex(*weights.shape[:2]):
        basis, last = None, None
        for target in range(weights.shape[2]):
            sources = np.flatnonzero(visible[text, head, target])
            if not len(sources):
                continue
            if last is None or not np.array_equal(sources, last):
                basis, last = left_null_basis(matrices[text, head, sources], least), sources
            assert basis is not None
            shortest = shortest_distribution(text_weights[text, head, target, sources], basis)
            result[text, head, target, sources.tolist()] = torch.from_numpy(shortest).to(result)
    return result


def shortest_distribution(
    weights: Float[np.ndarray, " source"], null: Float[np.ndarray, "source free"]
) -> Float[np.ndarray, " source"]:
    """Return the non-negative weights of smallest norm that equal `weights` plus a combination of
    the columns of `null`.
    """
    shortest = weights - null @ (null.T @ weights)
    if null.shape[1] == 0 or shortest.min() >= 0:
        return shortest if null.shape[1] else weights
    system = np.vstack([null.T, -shortest[None]])
    constraint = np.zeros(len(system))
    constraint[-1] = 1
    multipliers, _ = scipy_optimize().nnls(system, constraint, maxiter=50 * len(weights))
    residual = system @ multipliers - constraint
    if abs(residual[-1]) < 1e-14:
        raise MixlensError(
            "No distribution has this output, because the recorded attention weights are not a "
            "distribution themselves. Use a model with softmax attention."
        )
    distribution: np.ndarray = np.clip(shortest - null @ (residual[:-1] / residual[-1]), 0, None)
    return distribution
