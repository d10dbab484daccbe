"""Score the targets of a span as a single target, in blocks that fit into memory.

See `mixlens.contracts.span` for the definitions of the scores. The attention weights of the targets
are summed or scored block by block, so they are never kept for the whole span. The decomposition of
a span is the weighted sum over its targets, sum_i w_i T_ij. All linear steps use the same matrix
for every target, so the weights and norm scales can be folded into the attention weights, a_hj =
sum_i w_i scale_i A_hij. A span then costs as much as a single target. The norms stay linearised at
each target's own sigma. The factors of a gate differ between targets, so they are folded into the
values, v_hj * sum_i w_i scale_i A_hij gate_hi.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.contracts import LayerScores, SpanRule, Targets
from mixlens.kernels.chunks import in_float64, product_bytes
from mixlens.kernels.decomposition import Decomposition, Vectors

if TYPE_CHECKING:
    from mixlens.recording.attention import Attention
    from mixlens.recording.layer import Layer


def weigh_targets(parts: Decomposition, weights: Float[Tensor, "batch target"]) -> Decomposition:
    """Multiply all vectors of each target by its weight."""
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

    If the residual stream counts as a source, each target's residual stays at that target's
    position.
    """
    weighed = weigh_targets(parts, weights)
    folded, vectors = _fold_attention(weighed)
    return replace(
        weighed,
        weights=folded,
        vectors=vectors,
        scale=torch.ones_like(folded[:, 0, :, 0]),
        own=weighed.own if weighed.own_is_source else _total(weighed.own),
        constant=None if weighed.constant is None else _total(weighed.constant),
        total=_total(weighed.total),
        beside={name: _total(each) for name, each in weighed.beside.items()},
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
    """Return the attention weights of the folded target, and the vectors to multiply by these
    weights.
    """
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
    """Add the folded decompositions of two blocks of targets from the same span."""
    constant = None
    if first.constant is not None and second.constant is not None:
        constant = first.constant + second.constant
    union = replace(
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
        return union
    values = first.vectors.values + second.vectors.values
    return replace(
        union,
        weights=torch.maximum(first.weights, second.weights),
        vectors=replace(first.vectors, values=values),
    )


_COPIES = 8  # bytes of a weight of a head, before and after the softmax


def targets_at_once(heads: int, sources: int, texts: int, device: torch.device) -> int:
    """Return the number of targets whose attention weights fit into memory at once."""
    return max(1, product_bytes(device) // (_COPIES * heads * sources * texts))


@dataclass(frozen=True)
class SpanPart:
    """The contribution of a block of targets to the score of their span in one layer.

    The definition of the span's score decides which field is set: `parts` for "sum", `weighed` for
    "joint", `scores` for "mean" and for "joint" without vectors.
    """

    finish: Callable[[SpanPart], LayerScores]
    weight: Float[Tensor, " batch"]  # of all its targets
    parts: Decomposition | None = None
    weighed: Mapping[str, Tensor] | None = None
    scores: LayerScores | None = None
    total: Float[Tensor, "batch d_model"] | None = None  # sum_i w_i y_i
    size: Float[Tensor, " batch"] | None = None  # sum_i w_i |y_i|_1
    spread: Mapping[str, Tensor] | None = None  # of the scores of sampled targets

    def __add__(self, other: SpanPart) -> SpanPart:
        """Add the contribution of another block of targets from the same span and layer."""
        return replace(
            self,
            weight=self.weight + other.weight,
            parts=_both(self.parts, other.parts, join_spans),
            weighed=_both(self.weighed, other.weighed, _add_entries),
            scores=_both(self.scores, other.scores, _add_scores),
            total=_both(self.total, other.total, torch.add),
            size=_both(self.size, other.size, torch.add),
            spread=_both(self.spread, other.spread, _add_entries),
        )

    def finished(self) -> LayerScores:
        """Return the scores of the span, [batch, (head,) 1, source], with the span's coherence as
        an extra.
        """
        scores = self.finish(self)
        if self.total is None or self.size is None:
            return scores
        tiny = torch.finfo(self.size.dtype).tiny
        coherence = self.total.abs().sum(-1) / self.size.clamp_min(tiny)
        return replace(
            scores,
            extras={**scores.extras, "coherence": coherence},
            extra_dims={**scores.extra_dims, "coherence": ()},
        )


@dataclass(frozen=True, kw_only=True)
class SpanMeasure:
    """A layer measure applied to a span. When called with some of the span's targets, it returns a
    `SpanPart`.
    """

    rule: SpanRule | None
    definition: str
    score_layer: Callable[..., LayerScores]
    options: Mapping[str, Any]
    population: Sequence[int] | None = None  # targets of each text, if some of them are drawn

    def __call__(self, layer: Layer, attention: Attention, targets: Targets) -> SpanPart:
        """Return the contribution of these targets to the score of the span."""
        span_part: SpanPart | None = None
        weights = attention.weights
        batch, heads, _, sources = weights.shape
        size = targets_at_once(heads, sources, batch, weights.device)
        for block in targets.blocks(size):
            part = self._part(layer, attention, block)
            span_part = part if span_part is None else span_part + part
        assert span_part is not None  # a span has a target
        return span_part

    def _part(self, layer: Layer, attention: Attention, targets: Targets) -> SpanPart:
        weights = targets.weights_like(attention.weights)
        part = SpanPart(finish=self._finish(layer.memory_budget), weight=weights.sum(1))
        if attention.block_parts is not None:
            y = targets.take(attention.block_output, 1)
            size = (y.abs().sum(-1) * weights).sum(1)
            part = replace(part, total=(y * weights[..., None]).sum(1), size=size)
        rule = self.rule
        if rule is not None and rule.square is not None and self.definition == "joint":
            squares = rule.square(layer, attention, targets, **self.options)
            return replace(part, scores=_weighted_sum(squares, weights**2))
        if rule is None or rule.split is None:
            scores = self.score_layer(layer, attention, targets)
            return self._with_scores(part, scores, weights)
        parts = rule.split(layer, attention, targets, **self.options)
        if self.definition == "sum":
            return replace(part, parts=fold_targets(parts, weights))
        assert rule.weigh is not None
        assert rule.score is not None
        if self.definition == "joint":
            weighed = rule.weigh(weigh_targets(parts, weights), layer.memory_budget, **self.options)
            added = {name: each.sum(1, keepdim=True) for name, each in weighed.items()}
            return replace(part, weighed=added)
        scores = rule.score(rule.weigh(parts, layer.memory_budget, **self.options), **self.options)
        return self._with_scores(part, scores, weights)

    def _with_scores(self, part: SpanPart, scores: LayerScores, weights: Tensor) -> SpanPart:
        if self.population is not None:
            part = replace(part, spread=_spread(scores.values, weights))
        return replace(part, scores=_weighted_sum(scores, weights))

    def _finish(self, budget: int) -> Callable[[SpanPart], LayerScores]:
        def finish(part: SpanPart) -> LayerScores:
            if part.scores is not None:
                if self.definition == "mean":
                    mean = _divided(part.scores, part.weight)
                    if part.spread is None or self.population is None:
                        return mean
                    return _with_error(mean, part.spread, self.population)
                if self.definition == "joint":
                    assert self.rule is not None
                    assert self.rule.unite is not None
                    return self.rule.unite(part.scores, **self.options)
                facts = part.scores.facts
                facts = None if facts is None else replace(facts, rows_sum_to_one=False)
                return replace(part.scores, facts=facts)
            assert self.rule is not None
            assert self.rule.weigh is not None
            assert self.rule.score is not None
            weighed = part.weighed
            if part.parts is not None:
                weighed = self.rule.weigh(part.parts, budget, **self.options)
            return self.rule.score(weighed, **self.options)

        return finish


def _both(first: Any, second: Any, add: Callable[[Any, Any], Any]) -> Any:
    return None if first is None or second is None else add(first, second)


def _add_entries(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: each + second[name] for name, each in first.items()}


def _add_scores(first: LayerScores, second: LayerScores) -> LayerScores:
    return replace(
        first,
        values=first.values + second.values,
        extras=_add_entries(first.extras, second.extras),
        scale=_both(first.scale, second.scale, torch.add),
    )


def _each(scores: LayerScores, change: Callable[[Tensor, int | None], Tensor]) -> LayerScores:
    """Apply `change` to every tensor of the scores.

    `change` takes the tensor and the index of its target axis (None if it has none).
    """
    axes = {
        name: 1 + dims.index("target") if "target" in dims else None
        for name, dims in scores.extra_dims.items()
    }
    return replace(
        scores,
        values=change(scores.values, scores.values.dim() - 2),
        extras={name: change(each, axes.get(name)) for name, each in scores.extras.items()},
        scale=None if scores.scale is None else change(scores.scale, 1),
    )


def _weighted_sum(scores: LayerScores, weights: Float[Tensor, "batch target"]) -> LayerScores:
    """Return the weighted sum over the targets.

    Tensors without a target axis are multiplied by the sum of the weights.
    """

    def change(tensor: Tensor, axis: int | None) -> Tensor:
        each = weights.sum(1, keepdim=True) if axis is None else weights
        shape = [len(weights)] + [1] * (tensor.dim() - 1)
        if axis is None:
            return tensor.to(weights) * each.view(shape)
        shape[axis] = each.shape[1]
        return (tensor.to(weights) * each.view(shape)).sum(axis, keepdim=True)

    return _each(scores, change)


def _spread(values: Tensor, weights: Float[Tensor, "batch target"]) -> dict[str, Tensor]:
    """Return the sums over targets from which the standard error of the mean score is computed.

    For weights w_i and scores d_i, these are the sums of w_i, w_i^2, w_i^2 d_i and w_i^2 d_i^2, and
    the number of positive weights. They are in float64, because the standard error is a small
    difference of large sums.
    """
    values, w = in_float64(values), in_float64(weights)
    w = w.view(len(w), *[1] * (values.dim() - 3), -1, 1)
    sums = {"count": (w > 0).to(w), "weights": w, "squares": w**2}
    sums |= {"first": w**2 * values, "second": w**2 * values**2}
    return {name: each.sum(-2, keepdim=True) for name, each in sums.items()}


def _with_error(
    mean: LayerScores, spread: Mapping[str, Tensor], population: Sequence[int]
) -> LayerScores:
    """Add the standard error of a weighted mean to the scores.

    The mean m is over n targets, which were drawn from N without replacement. Its standard error is
    sqrt((1 - n / N) n / (n - 1) sum_i w_i^2 (d_i - m)^2) / sum_i w_i.
    """
    n, m = spread["count"], in_float64(mean.values)
    share = n / torch.tensor(population, device=n.device).view_as(n).to(n)
    residuals = spread["second"] - 2 * m * spread["first"] + m**2 * spread["squares"]
    scale = (1 - share) * n / (n - 1).clamp_min(1)
    error = (scale * residuals.clamp_min(0)).sqrt() / spread["weights"]
    dims = ("head", "target", "source")[4 - error.dim() :]
    return replace(
        mean,
        extras={**mean.extras, "standard_error": error.to(mean.values.dtype)},
        extra_dims={**mean.extra_dims, "standard_error": dims},
    )


def _divided(scores: LayerScores, weight: Float[Tensor, " batch"]) -> LayerScores:
    def change(tensor: Tensor, axis: int | None) -> Tensor:
        return tensor / weight.view((-1,) + (1,) * (tensor.dim() - 1))

    return _each(scores, change)
