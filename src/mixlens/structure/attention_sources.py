"""Decide which tokens an attention reads: its own, those of another stack, or both."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from mixlens.contracts import AttentionKind
from mixlens.errors import UnsupportedModel
from mixlens.structure.trace_matching import Evidence


def sources_of(evidence: Evidence, index: int) -> tuple[AttentionKind, str | None]:
    """Return the stack whose tokens an attention reads, and the place of its own tokens if it reads
    others as well.
    """
    own, targets = evidence.trace.own_sources[index], int(evidence.hidden.shape[1])
    others = len(own) - targets
    if evidence.trace.cores[index].call.across:
        return AttentionKind.CROSS, None
    if not any(own):  # the values may come from an earlier layer of its stack (Gemma 4)
        shared = _no_later(evidence.trace.cores[index].call.weights)
        return AttentionKind.SELF if shared else AttentionKind.CROSS, None
    if others == 0:  # a token with a constant value (which does not depend on it) still counts
        return AttentionKind.SELF, None
    if others > 0 and own == (True,) * targets + (False,) * others:
        return AttentionKind.SELF, "first"
    if others > 0 and own == (False,) * others + (True,) * targets:
        return AttentionKind.SELF, "last"
    raise UnsupportedModel(
        f"layer `{evidence.path}`: its attention reads {len(own)} sources for {targets} "
        f"tokens, and {sum(own)} of them depend on its input. They are not the tokens "
        "themselves (keys and values are pooled, or computed for other positions), so no "
        "score belongs to a token"
    )


def is_causal(evidence: Evidence, index: int) -> bool:
    """Return whether no token reads a later one of its own stack."""
    kind, own_sources = sources_of(evidence, index)
    if kind is AttentionKind.CROSS:
        return False
    weights = evidence.trace.cores[index].call.weights
    count = int(weights.shape[2])
    own = weights[..., -count:] if own_sources == "last" else weights[..., :count]
    return _no_later(own)


def _no_later(weights: Tensor) -> bool:
    targets, sources = weights.shape[-2:]
    return targets == sources > 1 and not bool(weights[0].triu(1).any())


def has_sink(weights: Float[Tensor, "batch head target source"]) -> bool:
    """Return True if a sink takes a part of the softmax, so that weights sum to less than one.

    Half-precision weights are rounded one by one. A target that sees nothing has no weights.
    """
    sums = weights[0].detach().double().sum(-1)
    bar = 2e-2 if weights.element_size() < 4 else 1e-4
    return bool((((1 - sums).abs() > bar) & (sums != 0)).any())
