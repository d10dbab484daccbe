"""Aggregate layers by rollout for a few targets, from the last layer down and without storing maps.

The rollout is R_l = M_l R_(l-1) (Abnar & Zuidema 2020). The scores of a target in R_l are therefore
its scores in M_l, multiplied by M_(l-1), then by M_(l-2), and so on down to the input. The map of
each layer is computed in blocks of targets, and only for targets that contribute to the layers
above. `MixingMaps.rollout` gives the same scores. The rollout takes as long as computing the maps
of all layers below the last. It needs the memory of `Recording.visit` with blocks, plus layers x
targets x n numbers in float64.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from mixlens.contracts import AttentionKind, LayerScores, Request, Scores, Span, Spec, Targets
from mixlens.errors import InvalidInput, TargetsUnavailable, UnsupportedModel
from mixlens.kernels.chunks import rows_at_once
from mixlens.maps.mixing_maps import MixingMaps
from mixlens.maps.rollout import Rule, join_facts, roll_out
from mixlens.measures import layer_function, refusal, spec_of, without_noise
from mixlens.measuring.measure import at_work, measure
from mixlens.measuring.measured_batch import MeasuredBatch, describe_span, maps_of_text, span_labels
from mixlens.measuring.whole_maps import record_all_targets
from mixlens.model.placement import entry_device
from mixlens.text.answer_tokens import is_chosen
from mixlens.text.tokens import TokenRow

if TYPE_CHECKING:
    from mixlens.recording.layer import Layer
    from mixlens.recording.recording import Recording

_log = logging.getLogger(__name__)


def roll_out_targets(
    name: str,
    recording: Recording,
    *,
    site: str | None = None,
    targets: int | str | Sequence[int | str] | None = None,
    residual: float | int | None = None,
    normalise: bool | None = None,
    span: str | bool | None = None,
    weights: Any = None,
    **options: Any,
) -> MixingMaps:
    """Return the rollout of a measure for these targets, up to each layer.

    No maps are stored if the recording does not keep its layers and the measure can score targets
    separately. For a span, return the weighted mean of the rollouts of its targets.
    """
    if recording.batch != 1:
        raise InvalidInput("rollout takes one text. Pass one text at a time")
    site = recording.site if site is None else site
    request = Request.resolved(recording, site=site, layers=None, targets=targets, per_head=False)
    request = replace(request, targets=request.targets or recording.targets)
    if request.targets is None:
        raise InvalidInput("No targets were passed. Pass at least one")
    request = _with_mean(request, span, weights)
    if request.kind is AttentionKind.CROSS:
        raise InvalidInput(
            "In cross-attention, the targets and the sources are different tokens, so layers "
            "cannot be aggregated. Pass a self-attention as site."
        )
    reason = refusal(name, recording.structure, request.site)
    if reason is not None:
        raise UnsupportedModel(reason)
    recording.structure.stack_of(request.site).require_every_layer("rollout")
    if not recording.is_kept:
        try:
            return _in_blocks(name, recording, request, residual, normalise, options)
        except TargetsUnavailable as error:
            _log.info("%s rolls out whole maps for these targets: %s", name, error)
            recording = replace(record_all_targets(recording, name), not_cut=str(error))
    return _from_maps(name, recording, request, residual, normalise, options)


def _with_mean(request: Request, span: str | bool | None, weights: Any) -> Request:
    """Combine the targets into a span if requested.

    The rollout is linear in the scores of the last layer, so the mean of the rollouts is the
    rollout of the mean.
    """
    if span is None or span is False:
        if weights is not None:
            raise InvalidInput("weights= needs a span. Pass span='mean'.")
        return request
    if span not in (True, "mean"):
        raise InvalidInput(f"A rollout does not support span={span!r}. Use span='mean'.")
    assert request.targets is not None
    return replace(request, span=Span.of("mean", weights, request.targets))


def _start(request: Request) -> np.ndarray:
    """Return the weight of each target in each rollout, [rollout, target].

    There is one rollout per target, or a single one for a span.
    """
    assert request.targets is not None
    if request.span is None:
        return np.eye(len(request.targets[0]))
    normalised: np.ndarray = np.array(request.span.weights) / sum(request.span.weights[0])
    return normalised


def _from_maps(
    name: str,
    recording: Recording,
    request: Request,
    residual: float | int | None,
    normalise: bool | None,
    options: Mapping[str, Any],
) -> MixingMaps:
    assert request.targets is not None
    has_answer = is_chosen(options.get("answer"))  # which needs the produced tokens
    every = replace(recording, targets=None, produced=recording.produced if has_answer else None)
    maps = measure(name, every, site=request.site, **options)
    assert not isinstance(maps, list)
    maps = replace(maps, target_row=maps.source_row)
    target_maps = roll_out(maps, residual, normalise).at(targets=list(request.targets[0]))
    if request.span is None:
        return replace(target_maps, target_row=recording.named_targets(request.site, 0))
    return replace(
        target_maps,
        scores=(_start(request) @ target_maps.scores).astype(target_maps.scores.dtype),
        target_row=TokenRow(tuple(span_labels(recording, request)), special=(True,)),
        target_positions=(0,),
        facts=replace(target_maps.facts, same_tokens=False, residual_included=False),
        provenance={**target_maps.provenance, **describe_span(name, request, 0)},
        measured={},
    )


# --------------------------------------------------------------------------------------- in blocks


@dataclass(kw_only=True)
class _RolledRows:
    """Rollout scores of the targets from every layer, propagated down to the layer that was visited
    last.
    """

    rows: np.ndarray  # [layer, row, source]
    targets: tuple[int, ...]
    start: np.ndarray  # [row, target]
    below: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def begin(self, layer: int) -> np.ndarray:
        """Start a layer, and return the targets to compute.

        These are the targets of the rollout, and the tokens that contribute to the layers above.
        """
        self.below = np.zeros_like(self.rows[layer + 1 :])
        reached = np.nonzero(self.rows[layer + 1 :].any((0, 1)))[0]
        return np.union1d(reached, self.targets)

    def add(self, layer: int, block: Sequence[int], passed: np.ndarray) -> None:
        """Multiply the scores by the transitions of one block of a layer's targets."""
        self.below += self.rows[layer + 1 :][:, :, list(block)] @ passed
        numbers = [number for number, target in enumerate(self.targets) if target in block]
        places = [list(block).index(self.targets[number]) for number in numbers]
        self.rows[layer] += self.start[:, numbers] @ passed[places]

    def end(self, layer: int) -> None:
        """Finish a layer after all blocks of its targets have been added."""
        self.rows[layer + 1 :] = self.below


def _in_blocks(
    name: str,
    recording: Recording,
    request: Request,
    residual: float | int | None,
    normalise: bool | None,
    options: Mapping[str, Any],
) -> MixingMaps:
    spec = spec_of(name)
    if not spec.row_by_row:
        raise TargetsUnavailable(f"{name} needs all targets of a text")
    assert request.targets is not None
    rule, (targets,) = Rule.of(spec, residual, normalise), request.targets
    layers = recording.structure.stack_of(request.site).layers
    size = rows_at_once(
        24 * max(site.heads for site in layers[0].sites) * recording.width,
        recording.memory_budget,
        entry_device(recording.model),
    )
    start = _start(request)
    shape = (len(layers), len(start), recording.width)
    product = _RolledRows(rows=np.zeros(shape), targets=targets, start=start)
    layer_scores: list[LayerScores] = []
    score = layer_function(name, options, per_head=False)

    def blocks(index: int) -> list[list[int]]:
        if index + 1 < len(layers):
            product.end(index + 1)
        needed = product.begin(index)
        parts = np.array_split(needed, -(-len(needed) // size))
        return [part.tolist() for part in parts]

    def visit(position: int, layer: Layer, block: Targets) -> None:
        assert block.positions is not None
        with layer.hold_attention():
            block_scores = score(layer, layer.site(request.kind), block)
        layer_scores.append(
            replace(block_scores, values=block_scores.values[:, :0], extras={}, scale=None)
        )
        scores = without_noise(name, Scores.of_layers([block_scores]))
        values = scores.values[0, 0].double().cpu().numpy()
        places = block.positions[0]
        product.add(position, places, rule.passed_on(values, np.array(places)))

    with at_work({name: options}, recording, request, None):
        recording.visit(replace(request, span=None), visit, blocks)
    product.end(0)
    return _as_maps(name, spec, recording, request, rule, product, layer_scores, options)


def _as_maps(
    name: str,
    spec: Spec,
    recording: Recording,
    request: Request,
    rule: Rule,
    product: _RolledRows,
    layer_scores: Sequence[LayerScores],
    options: Mapping[str, Any],
) -> MixingMaps:
    dtype = torch.promote_types(layer_scores[0].values.dtype, torch.float32)
    values = torch.from_numpy(product.rows)[:, None].to(dtype)
    batch = MeasuredBatch(
        name=name,
        spec=spec,
        recording=recording,
        request=request,
        scores=replace(
            Scores.of_layers(layer_scores),
            values=values,
            target_labels=None if request.span is None else span_labels(recording, request),
        ),
        options=options,
    )
    maps = maps_of_text(batch, 0)
    step = f"rollout({rule})"
    aggregated_facts = join_facts(maps.facts, rule, step, product.rows)
    return maps.derived(product.rows, step, aggregated_facts)
