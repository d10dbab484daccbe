"""The shares of which information flow routes are made.

Ferrando & Voita 2024, Information Flow Routes: Automatically Interpreting Language Models at Scale
(EMNLP). For a sum y = sum_k z_k + rest, the share of z_k is in proportion to max(0, ||y||_1 - ||y -
z_k||_1). There are two such sums in a layer. In the attention block the summands are what each head
brings of each source, and the residual stream. After the feed-forward part they are its output and
the stream it is added to.

As in the authors' tool the bias of the values belongs to no summand, unless `value_bias` says so:
attention weights sum to one, so it is a constant.

Beyond the authors: a norm that follows a sum, or that is on a branch, has its sigma held, and every
summand goes through its linear part (post-norm and sandwich layers). In a parallel layer the block
is the stream and the attention, and the feed-forward part is added to that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.capture.hook_points import HookPoint
from mixlens.contracts import Targets, is_released
from mixlens.kernels.chunks import cached_bytes
from mixlens.kernels.decomposition import Decomposition
from mixlens.kernels.gains import manhattan_gain
from mixlens.kernels.head_gains import head_gains
from mixlens.replay.value_map import value_bias as bias_of_values
from mixlens.structure.norms import norm_of

if TYPE_CHECKING:
    from mixlens.recording.attention import Attention
    from mixlens.recording.layer import Layer
    from mixlens.structure.layer_structure import AttentionStructure, LayerStructure


@dataclass(frozen=True)
class RouteRules:
    """How shares are taken. The released code adds 1e-6 to every difference, has a floor of 1e-5
    for every summand, and counts sources that a target cannot see.
    """

    value_bias: bool = False
    released: bool = False

    @classmethod
    def of(cls, value_bias: bool, variant: str) -> RouteRules:
        """From the options of a measure."""
        return cls(value_bias, is_released(variant))

    @property
    def shift(self) -> float:
        """What is added to every difference."""
        return 1e-6 if self.released else 0.0

    @property
    def floor(self) -> float:
        """The least that a summand counts."""
        return 1e-5 if self.released else 0.0


def no_routes(layer: LayerStructure, site: AttentionStructure) -> str | None:
    """Why a layer of this structure has no such shares."""
    if len(layer.sites) > 1:
        return (
            "a cross-attention block is between the self-attention and the feed-forward part, and"
            " routes through two stacks are not defined; use alti instead"
        )
    if layer.has_other_parts:
        return (
            "more than one part of it adds to the stream next to its attention, and routes know a"
            " single feed-forward part; use alti instead"
        )
    if site.gated:
        return (
            "its attention is gated, so a source has a different vector for each target; use"
            " alti instead"
        )
    return None


@dataclass(frozen=True)
class AttentionShares:
    """Shares of the attention block of some targets; with the residual's they add up to one."""

    heads: Float[Tensor, "batch head target source"]
    residual: Float[Tensor, "batch target"]

    def merged(self, positions: Tensor) -> Float[Tensor, "batch target source"]:
        """Heads added up, and the residual stream where a target meets itself."""
        return self.heads.sum(1).scatter_add(2, positions[..., None], self.residual[..., None])


def attention_shares(
    layer: Layer, site: Attention, targets: Targets, rules: RouteRules
) -> AttentionShares:
    """Of the wanted targets."""
    parts = route_parts(layer, site, targets, rules)
    heads, residual = route_gains(parts, layer.memory_budget, rules)
    heads = heads.clamp_min_(rules.floor)
    if rules.floor:
        ends = torch.tensor(targets.source_lengths, device=heads.device)[:, None, None, None]
        heads.masked_fill_(torch.arange(heads.shape[-1], device=heads.device) >= ends, 0)
    return as_shares(heads, residual.clamp_min(rules.floor))


def route_parts(
    layer: Layer, site: Attention, targets: Targets, rules: RouteRules
) -> Decomposition:
    """The block's output by head and source. The residual stream is one more part, no source."""
    bias = None if rules.value_bias else bias_of_values(layer, site)
    if bias is not None:
        shared = site.structure.heads // site.values.shape[1]
        site = replace(site, values=site.values.to(site.head_maps) - bias[::shared, None])
    return replace(site.decomposition(targets), own_is_source=False)


def route_gains(
    parts: Decomposition, budget: int, rules: RouteRules
) -> tuple[Float[Tensor, "batch head target source"], Float[Tensor, "batch target"]]:
    """How much nearer each head's part of each source, and the residual, bring the output."""
    limit = cached_bytes(budget, parts.total.device)
    heads = head_gains(parts, parts.total, limit, rules.shift)
    return heads, manhattan_gain(parts.own, parts.total, rules.shift)


def as_shares(
    heads: Float[Tensor, "batch head target source"], residual: Float[Tensor, "batch target"]
) -> AttentionShares:
    """Gains, none of them negative, divided by their sum."""
    whole = (heads.sum((1, 3)) + residual).clamp_min(torch.finfo(heads.dtype).tiny)
    return AttentionShares(heads.div_(whole[:, None, :, None]), residual / whole)


def feed_forward_parts(
    layer: Layer, site: Attention, targets: Targets
) -> dict[str, Float[Tensor, "batch target d_model"]]:
    """The layer's output, and the feed-forward part and the stream that it is the sum of; nothing
    if there is no such part.
    """
    structure = layer.structure.feed_forward
    if structure is None:
        return {}
    total, stream = targets.take(layer.output, 1), targets.take(site.block_output, 1)
    stream = stream if site.structure.parallel else structure.own(stream)
    added = total - stream
    if structure.output_norm is not None:
        entering = targets.take(layer.seen(HookPoint(structure.output_norm, "in")), 1)
        norm = norm_of(layer.module.get_submodule(structure.output_norm), total)
        assert norm is not None  # it was one when the layer was taken apart
        inverse = norm.inverse_sigma(entering)[..., None]
        added, stream = (norm.linear(part) * inverse for part in (entering - stream, stream))
    return {"output": total, "added": added, "stream": stream}


def feed_forward_shares(
    layer: Layer, site: Attention, targets: Targets, rules: RouteRules
) -> tuple[Float[Tensor, "batch target"], Float[Tensor, "batch target"]]:
    """The shares of the feed-forward part and of the stream that it is added to."""
    parts = feed_forward_parts(layer, site, targets)
    if not parts:
        like = targets.take(site.block_output, 1)[..., 0]
        return torch.zeros_like(like), torch.ones_like(like)
    added, stream = (
        manhattan_gain(parts[name], parts["output"], rules.shift).clamp_min(rules.floor)
        for name in ("added", "stream")
    )
    whole = (added + stream).clamp_min(torch.finfo(added.dtype).tiny)
    return added / whole, stream / whole
