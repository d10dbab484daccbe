"""Several targets of a decomposition as one: sum_i w_i T_ij.

All linear steps share one matrix for all targets. So weights and norm scales fold into the
attention weights, a_hj = sum_i w_i scale_i A_hij, and a span costs as much as a single target. The
norms stay linearised at each target's own sigma. A gate differs from target to target: it folds
into the values, v_hj * sum_i w_i scale_i A_hij gate_hi.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.kernels.decomposition import Decomposition, Vectors


def weigh_targets(parts: Decomposition, weights: Float[Tensor, "batch target"]) -> Decomposition:
    """Multiply every vector of a target by the target's weight."""
    each = weights[..., None]
    return replace(
        parts,
        scale=parts.scale * weights,
        own=parts.own * each,
        constant=None if parts.constant is None else parts.constant * each,
        total=parts.total * each,
        beside={name: vectors * each for name, vectors in parts.beside.items()},
    )


def fold_targets(parts: Decomposition, weights: Float[Tensor, "batch target"]) -> Decomposition:
    """Return the weighted sum of all targets as a single target.

    Each residual stream stays at its own position, if it is one of the sources.
    """
    made = weigh_targets(parts, weights)
    folded, vectors = _fold_attention(made)
    return replace(
        made,
        weights=folded,
        vectors=vectors,
        scale=torch.ones_like(folded[:, 0, :, 0]),
        own=made.own if made.own_is_source else _total(made.own),
        constant=None if made.constant is None else _total(made.constant),
        total=_total(made.total),
        beside={name: _total(each) for name, each in made.beside.items()},
        causal=False,
        ends=None,
        folded=True,
        gate_folded=parts.vectors.gate is not None,
    )


def _total(vectors: Float[Tensor, "batch target width"]) -> Float[Tensor, "batch 1 width"]:
    return vectors.sum(1, keepdim=True)


def _fold_attention(
    parts: Decomposition,
) -> tuple[Float[Tensor, "batch head 1 source"], Vectors]:
    """Return the attention weights of the folded target, and the vectors that they multiply."""
    vectors = parts.vectors
    weights = parts.scale[:, None, None] @ parts.weights
    if vectors.gate is None and vectors.values.dtype != torch.float16:
        return weights, vectors
    # Sums over many targets do not fit float16.
    wide = replace(vectors, values=vectors.values.to(weights), matrix=vectors.matrix.to(weights))
    if wide.gate is None:
        return weights, wide
    gate = wide.gate.transpose(1, 2).to(weights)
    values = wide.heads() * (parts.weights.mT @ (gate * parts.scale[:, None, :, None]))
    return (weights != 0).to(weights), replace(wide, values=values, gate=None)


def join_spans(first: Decomposition, second: Decomposition) -> Decomposition:
    """Return the sum of two folded parts of one span."""
    constant = None
    if first.constant is not None and second.constant is not None:
        constant = first.constant + second.constant
    joined = replace(
        first,
        weights=first.weights + second.weights,
        own=torch.cat([first.own, second.own], 1)
        if first.own_is_source
        else first.own + second.own,
        constant=constant,
        total=first.total + second.total,
        positions=torch.cat([first.positions, second.positions], 1),
        beside={name: each + second.beside[name] for name, each in first.beside.items()},
    )
    if not first.gate_folded:
        return joined
    values = first.vectors.values + second.vectors.values
    return replace(
        joined,
        weights=torch.maximum(first.weights, second.weights),
        vectors=replace(first.vectors, values=values),
    )
