"""The normalised scores of information flow routes.

Ferrando & Voita 2024, Information Flow Routes: Automatically Interpreting Language Models at Scale
(EMNLP). For a sum y = sum_k z_k + rest, the score of z_k is proportional to max(0, ||y||_1 - ||y -
z_k||_1). A layer contains two such sums. In the attention block, the terms are the vectors of each
head and source, and the residual stream. After the MLP, the terms are the output of the MLP and the
residual stream to which this output is added.

As in the authors' tool, the bias of the values does not belong to any term, unless you set
`value_bias`. Its contribution is constant, because attention weights sum to one.

mixlens also supports layers that the paper does not cover. In post-norm and sandwich layers, the
sigma of a norm after a sum or on a branch is fixed, and the linear part of the norm is applied to
every term. In parallel layers, the attention block is the sum of the stream and the attention
output, and the MLP is added to that sum.

For each head and source, `head_contributions` computes ||y_i||_1 - ||y_i - z||_1 with z = a_hij
f_hj. For each channel, |y| - |y - z| = u - 2 max(0, u - |y|), with u = sign(y) z. The sum of the
first term over channels is a matrix product. The second term is non-zero only in channels where u
is larger than |y|. These are among the channels with the smallest |y|, and most pairs of target and
source have few or none of them, because attention weights are small. For each pair, an upper bound
on |z| limits how many of these channels have to be read. The result is exact, and takes an order of
magnitude less time than reading all channels of all heads. If there are only a few pairs, as in one
route, all channels are compared directly, which is faster than sorting them. On a GPU, a fused
kernel computes the contributions of a few targets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.capture.layer_calls import HookPoint
from mixlens.contracts import Targets, is_released
from mixlens.kernels.chunks import LARGEST, cached_bytes, product_bytes, slices, split_chunks
from mixlens.kernels.contributions import l1_contribution
from mixlens.kernels.decomposition import Decomposition, Vectors
from mixlens.kernels.fused import head_contributions as fused_heads
from mixlens.kernels.fused.checked import Combination, Sampler, Trial, run_checked, widen
from mixlens.replay.value_map import value_bias as bias_of_values
from mixlens.structure.norms import norm_of

if TYPE_CHECKING:
    from mixlens.recording.attention import Attention
    from mixlens.recording.layer import Layer
    from mixlens.structure.layer_structure import AttentionStructure, LayerStructure


@dataclass(frozen=True)
class RouteRules:
    """Rules for computing the normalised scores.

    With `released`, the rules follow the authors' code, which adds 1e-6 to every difference, sets
    every term to at least 1e-5, and counts sources that a target cannot see. Contributions below
    `threshold` count as zero.
    """

    value_bias: bool = False
    released: bool = False
    threshold: float = 0.0

    @classmethod
    def of(cls, value_bias: bool, variant: str, threshold: float = 0.0) -> RouteRules:
        """Create the rules from the options of a route measure."""
        return cls(value_bias, is_released(variant), threshold)

    @property
    def shift(self) -> float:
        """Return the constant that is added to every difference."""
        return 1e-6 if self.released else 0.0

    @property
    def floor(self) -> float:
        """Return the smallest value that a term can have."""
        return 1e-5 if self.released else 0.0


def no_routes(layer: LayerStructure, site: AttentionStructure) -> str | None:
    """Return the reason why routes are not defined for a layer of this structure, or None."""
    if len(layer.sites) > 1:
        return (
            "a cross-attention block is between the self-attention and the MLP, and routes "
            "through two stacks are not defined. Use alti instead"
        )
    if layer.has_other_parts:
        return (
            "more than one part adds to the stream next to its attention, but routes support "
            "a single MLP. Use alti instead"
        )
    if site.gated:
        return (
            "its attention is gated, so a source has a different vector for each target. Use "
            "alti instead"
        )
    return None


@dataclass(frozen=True)
class AttentionShares:
    """Normalised scores of the terms in an attention block. For each target, the scores of all
    heads and sources and of the residual stream sum to one.
    """

    heads: Float[Tensor, "batch head target source"]
    residual: Float[Tensor, "batch target"]

    def merge(self, positions: Tensor) -> Float[Tensor, "batch target source"]:
        """Return the scores summed over heads, with the residual stream on the diagonal."""
        return self.heads.sum(1).scatter_add(2, positions[..., None], self.residual[..., None])


def attention_shares(
    layer: Layer, site: Attention, targets: Targets, rules: RouteRules
) -> AttentionShares:
    """Return the normalised scores in the attention block, for the requested targets."""
    parts = route_parts(layer, site, targets, rules)
    heads, residual = route_contributions(parts, layer.memory_budget, rules)
    heads = heads.clamp_min_(rules.floor)
    if rules.floor:
        ends = torch.tensor(targets.source_lengths, device=heads.device)[:, None, None, None]
        heads.masked_fill_(torch.arange(heads.shape[-1], device=heads.device) >= ends, 0)
    return as_shares(above(heads, rules.threshold), residual.clamp_min(rules.floor))


def route_parts(
    layer: Layer, site: Attention, targets: Targets, rules: RouteRules
) -> Decomposition:
    """Return the output of the attention block by head and source, with the residual stream as a
    separate part.
    """
    bias = None if rules.value_bias else bias_of_values(layer, site)
    if bias is not None:
        shared = site.structure.heads // site.values.shape[1]
        site = replace(site, values=site.values.to(site.head_maps) - bias[::shared, None])
    return replace(site.decomposition(targets), own_is_source=False)


def route_contributions(
    parts: Decomposition, budget: int, rules: RouteRules
) -> tuple[Float[Tensor, "batch head target source"], Float[Tensor, "batch target"]]:
    """Return the L1 contributions of each head and source, and of the residual stream."""
    limit = cached_bytes(budget, parts.total.device)
    heads = head_contributions(parts, parts.total, limit, rules.shift)
    return heads, l1_contribution(parts.own, parts.total, rules.shift)


def above(contributions: Tensor, threshold: float) -> Tensor:
    """Set contributions below the threshold to 0."""
    if not threshold:
        return contributions
    return torch.where(contributions >= threshold, contributions, torch.zeros_like(contributions))


def as_shares(
    heads: Float[Tensor, "batch head target source"], residual: Float[Tensor, "batch target"]
) -> AttentionShares:
    """Divide non-negative contributions by their sum."""
    whole = (heads.sum((1, 3)) + residual).clamp_min(torch.finfo(heads.dtype).tiny)
    return AttentionShares(heads.div_(whole[:, None, :, None]), residual / whole)


def feed_forward_parts(
    layer: Layer, site: Attention, targets: Targets
) -> dict[str, Float[Tensor, "batch target d_model"]]:
    """Return the layer's output and the two terms that add up to it, from the MLP and the residual
    stream.

    Return an empty dictionary if the layer has no MLP.
    """
    structure = layer.structure.feed_forward
    if structure is None:
        return {}
    total, stream = targets.take(layer.output, 1), targets.take(site.block_output, 1)
    stream = stream if site.structure.parallel else structure.scale_residual(stream)
    added = total - stream
    if structure.output_norm is not None:
        entering = targets.take(layer.read_hook(HookPoint(structure.output_norm, "in")), 1)
        norm = norm_of(layer.module.get_submodule(structure.output_norm), total)
        assert norm is not None  # it was one when the structure was inferred
        inverse = norm.inverse_sigma(entering)[..., None]
        added, stream = (norm.linear(part) * inverse for part in (entering - stream, stream))
    return {"output": total, "added": added, "stream": stream}


def feed_forward_shares(
    layer: Layer, site: Attention, targets: Targets, rules: RouteRules
) -> tuple[Float[Tensor, "batch target"], Float[Tensor, "batch target"]]:
    """Return the normalised scores of the MLP's output and of the residual stream to which it is
    added.
    """
    parts = feed_forward_parts(layer, site, targets)
    if not parts:
        like = targets.take(site.block_output, 1)[..., 0]
        return torch.zeros_like(like), torch.ones_like(like)
    added, stream = (
        above(
            l1_contribution(parts[name], parts["output"], rules.shift).clamp_min(rules.floor),
            rules.threshold,
        )
        for name in ("added", "stream")
    )
    whole = (added + stream).clamp_min(torch.finfo(added.dtype).tiny)
    return added / whole, stream / whole


_WIDTHS = (8, 32, 128)  # channels that are read, if they are enough; else all
FEW = 2**23  # bytes of all channels of all pairs


def head_contributions(
    parts: Decomposition,
    y: Float[Tensor, "batch target d_model"],
    limit: int,
    shift: float = 0.0,
) -> Float[Tensor, "batch head target source"]:
    """Return ||y_i||_1 - ||z - y_i + shift||_1 for the vector z of every head, target and source.

    `limit` is the maximum size of a block in bytes.
    """
    if not fused_heads.applies(parts.weights):
        return _plain_head_contributions(parts, y, limit, shift)
    targets, values = parts.weights.shape[2], parts.vectors.values
    return run_checked(
        Combination(
            "head_contributions",
            y.device,
            (parts.weights.dtype, values.dtype, y.dtype),
            (
                *parts.vectors.matrix.shape[1:],
                *fused_heads.tile(values.shape[-1], values.dtype, targets),
            ),
        ),
        fused=lambda: _fused_head_contributions(parts, y, shift),
        plain=lambda: _plain_head_contributions(parts, y, limit, shift),
        trial=lambda: _try_fused(parts, y, targets),
    )


def _fused_head_contributions(
    parts: Decomposition, y: Float[Tensor, "batch target d_model"], shift: float
) -> Float[Tensor, "batch head target source"]:
    weights = parts.weights * parts.scale[:, None, :, None]
    return fused_heads.head_contributions(
        weights, parts.vectors.values, parts.vectors.matrix, y, shift
    )


def _try_fused(
    parts: Decomposition, y: Float[Tensor, "batch target d_model"], targets: int
) -> Trial:
    """Run the fused and the plain implementation on small data that has the dtypes and the block
    shape of these tensors.
    """
    sampler, (d_head, width) = Sampler(y.device), parts.vectors.matrix.shape[1:]
    dtype, shift = parts.vectors.values.dtype, 0.25
    weights, values = sampler.uniform(2, 4, targets, 150), sampler.normal(2, 2, 150, d_head)
    matrix = sampler.normal(4, d_head, width) * d_head**-0.5
    vectors, total = Vectors(values.to(dtype), matrix.to(dtype)), sampler.normal(2, targets, width)
    small = Decomposition(
        weights=weights,
        vectors=vectors,
        scale=sampler.uniform(2, targets),
        own=total,
        own_is_source=False,
        constant=None,
        total=total,
        positions=torch.zeros(2, targets, dtype=torch.long, device=y.device),
    )
    wide = replace(
        small, weights=weights.double(), vectors=widen(vectors), scale=small.scale.double()
    )
    fused = _fused_head_contributions(small, total, shift)
    return Trial(fused, _plain_head_contributions(wide, total.double(), LARGEST, shift), 1e-5)


def _plain_head_contributions(
    parts: Decomposition,
    y: Float[Tensor, "batch target d_model"],
    limit: int,
    shift: float,
) -> Float[Tensor, "batch head target source"]:
    """Compute `head_contributions` in plain PyTorch, one text at a time."""
    sources = parts.weights.shape[-1]
    vector_bytes = 4 * len(parts.vectors.matrix) * parts.vectors.width
    contributions = [
        torch.cat(
            [
                _of_text(parts, text, part, y[text], limit, shift)
                for part in slices(sources, vector_bytes, product_bytes(y.device))
            ],
            -1,
        )
        for text in range(len(y))
    ]
    return torch.stack(contributions)


def _of_text(
    parts: Decomposition,
    text: int,
    part: slice,
    y: Float[Tensor, "target d_model"],
    limit: int,
    shift: float,
) -> Float[Tensor, "head target part"]:
    """Return the contributions of the sources in `part`, in one text."""
    weights = parts.weights[text, ..., part] * parts.scale[text, :, None]
    values, matrix = parts.vectors.heads(part)[text], parts.vectors.matrix
    if y.device.type == "cpu":  # a GPU has fast products of half-precision numbers
        values, matrix = values.to(y), matrix.to(y)
    expected, vectors = y - shift, values @ matrix
    if weights.numel() * y.shape[-1] * y.element_size() <= FEW:
        distances = (weights[..., None] * vectors[:, None]).sub_(expected[:, None]).abs_()
        return torch.sub(y.abs()[:, None], distances, out=distances).sum(
            -1
        )  # exactly 0 for a weight of 0
    signs = torch.where(expected < 0, -1.0, 1.0).to(y)
    along = (signs @ matrix.to(y).mT) @ values.to(y).mT  # sign(y_i) . f_hj
    contributions = along.mul_(weights)
    if shift:
        contributions.add_((y.abs() - expected.abs()).sum(-1)[:, None])
    lowest, highest = vectors.aminmax(dim=-1)  # [head, source]
    reach = torch.maximum(-lowest, highest).to(y)
    pair_bytes = 32 + 2 * y.element_size()  # its three numbers, its bound and its weight
    row_bytes = pair_bytes * weights.shape[0] * weights.shape[2]
    for targets in slices(len(y), row_bytes, limit):
        bound = weights[:, targets].abs() * reach[:, None]
        for pairs, over in _overshoots(
            weights[:, targets], vectors, expected[targets], signs[targets], bound, limit
        ):
            head, target, source = pairs.unbind(1)
            contributions[head, target + targets.start, source] -= 2 * over
    return contributions


def _overshoots(
    weights: Float[Tensor, "head target source"],
    vectors: Float[Tensor, "head source d_model"],
    expected: Float[Tensor, "target d_model"],
    signs: Float[Tensor, "target d_model"],
    bound: Float[Tensor, "head target source"],
    limit: int,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield triples (head, target, source), and by how much the vector of each triple exceeds the
    output y, summed over channels.
    """
    smallest = _Channels.sort(expected, signs)
    width = int(expected.shape[-1])
    widths = [count for count in _WIDTHS if count < width]
    above = smallest.size[:, 0]
    for count in (*widths, width):
        within = bound > above[:, None]
        if count < width:
            above = smallest.size[:, count]
            within &= bound <= above[:, None]
        triples = within.nonzero()
        for few in split_chunks(triples, max(1, limit // (40 * count))):
            head, target, source = few.unbind(1)
            weight = weights[head, target, source][:, None]
            if count == width:
                signed_parts = vectors[head, source] * signs[target]
                size = expected[target].abs()
            else:
                channels = smallest.order[target, :count]
                signed_parts = vectors[head[:, None], source[:, None], channels]
                signed_parts = signed_parts * smallest.sign[target, :count]
                size = smallest.size[target, :count]
            yield few, signed_parts.mul_(weight).sub_(size).clamp_min_(0).sum(-1)


@dataclass(frozen=True)
class _Channels:
    """The channels of each target's output y, in ascending order of |y|."""

    order: Tensor
    size: Float[Tensor, "target d_model"]
    sign: Float[Tensor, "target d_model"]

    @classmethod
    def sort(
        cls, expected: Float[Tensor, "target d_model"], signs: Float[Tensor, "target d_model"]
    ) -> _Channels:
        size, order = expected.abs().sort(-1)
        return cls(order, size, signs.gather(1, order))
