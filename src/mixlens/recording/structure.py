"""How a transformer layer is put together: the facts that discovery finds, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class Witness:
    """A tensor that the running layer really had: an input or output of one of its submodules."""

    path: str
    side: str  # "in" or "out"
    position: int = 0  # among the floating-point inputs


@dataclass(frozen=True)
class SiteStructure:
    """One attention site: y = output_norm(residual_scale * residual + branch_scale * branch(A V W_O
    + b)).
    """

    kind: str  # "self" or "cross"
    heads: int
    kv_heads: int
    d_head: int
    causal: bool
    output_projection: str
    branch: tuple[str, ...]  # norms and per-channel scales between the projection and the residual
    branch_norm: bool  # is one of them a norm?
    residual_scale: float
    branch_scale: float | Tensor  # a tensor: one factor per channel
    residual_from: (
        str | None
    )  # the module whose output is the residual, where it is not the stream itself
    input_norm: str | None
    output_norm: str | None
    parallel: bool
    witness: Witness | None  # where y can be seen; None: it is the layer's output


@dataclass(frozen=True)
class FeedForwardStructure:
    """e = output_norm(residual_scale * y + branch_scale * feed_forward(y))."""

    output: str  # the module whose output is added
    residual_scale: float
    branch_scale: float | Tensor
    input_norm: str | None
    output_norm: str | None


@dataclass(frozen=True)
class LayerStructure:
    """One layer: its attention sites in the order of their calls, and its feed-forward part (None:
    it has none).
    """

    path: str
    sites: tuple[SiteStructure, ...]
    feed_forward: FeedForwardStructure | None
    axes: Any  # batch axis of every argument, for re-runs

    @property
    def style(self) -> str:
        """post, pre, sandwich, branch (a norm on the branch only), parallel, or bare (no norm at
        all).
        """
        site = self.sites[0]
        if site.parallel:
            return "parallel"
        if site.output_norm is not None:
            return "post"
        if site.branch_norm:
            return "sandwich" if site.input_norm is not None else "branch"
        return "pre" if site.input_norm is not None else "bare"

    @property
    def watched(self) -> frozenset[Witness]:
        """What a recording keeps of the layer to prove itself right."""
        found = {Witness(site.output_projection, "out") for site in self.sites}
        found |= {site.witness for site in self.sites if site.witness is not None}
        if self.feed_forward is not None and self.feed_forward.output_norm is not None:
            found.add(
                Witness(self.feed_forward.output_norm, "in")
            )  # GlobEnc needs the second norm's true input
        return frozenset(found)
