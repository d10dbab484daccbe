"""One measure of one recording, as maps: the request is checked, the scores are computed for the
whole batch, and each text gets its own part of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mixlens.contracts import AttentionKind, Request, Scores, Spec
from mixlens.cutting import target_tokens, without_padding
from mixlens.errors import InvalidInput, UnsupportedModel
from mixlens.maps import MixingMaps
from mixlens.measures import refusal, scores_of, spec_of
from mixlens.precision import matmul_precision
from mixlens.provenance import provenance_of
from mixlens.row import Extra

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording


def measure(
    name: str,
    recording: Recording,
    *,
    site: str | None = None,
    layers: Sequence[int] | None = None,
    targets: Sequence[int | str] | None = None,
    per_head: bool = False,
    precision: str | None = None,
    **options: Any,
) -> MixingMaps | list[MixingMaps]:
    """The scores of one measure: `MixingMaps` for a recording of one row, a list of them for
    several.

    `layers` and `targets` restrict what is computed; negative numbers count from the end.
    `precision`: float32, tf32 or bf16 for the products of this call; by default torch's own
    setting.
    """
    spec = spec_of(name)
    if per_head and not spec.per_head:
        raise InvalidInput(f"{name} is defined for whole layers only, not per head")
    reason = refusal(name, recording.structure, site)
    if reason is not None:
        raise UnsupportedModel(reason)
    request = Request.resolved(
        recording, site=site, layers=layers, targets=targets, per_head=per_head
    )
    with matmul_precision(precision):
        scores = scores_of(name, recording, request, options)
    rows = [
        maps_of_row(name, spec, recording, request, scores, row, options)
        for row in range(recording.batch)
    ]
    return rows[0] if recording.batch == 1 else rows


def maps_of_row(
    name: str,
    spec: Spec,
    recording: Recording,
    request: Request,
    scores: Scores,
    row: int,
    options: Mapping[str, Any],
) -> MixingMaps:
    """One row of a measure's batch, padding cut off."""
    targets, positions = target_tokens(recording, request, scores, row)
    sources = recording.source_tokens(request.site, row)
    sizes = {"target": len(positions), "source": len(sources)}
    extras = {}
    for key, tensor in scores.extras.items():
        dims = scores.extra_dims.get(key, tuple(f"{key}_{i}" for i in range(tensor.dim() - 2)))
        extras[key] = Extra(("layer", *dims), without_padding(tensor, row, dims, sizes))
    dims = ("head", "target", "source")[5 - scores.values.dim() :]
    layers = request.layers if scores.layers is None else scores.layers
    facts = spec.facts if scores.facts is None else scores.facts
    own = request.kind == AttentionKind.SELF
    return MixingMaps(
        scores=without_padding(scores.values, row, dims, sizes),
        layers=tuple(int(layer) for layer in layers),
        target_row=targets,
        source_row=sources,
        target_positions=positions,
        facts=replace(
            facts,
            residual_included=facts.residual_included and own,  # a cross target is not a source
            same_tokens=own and scores.target_labels is None,
            reaches_input=spec.facts.reaches_input,
        ),
        provenance=provenance_of(name, spec, recording, request, options),
        rollout_residual=spec.rollout_residual,
        rollout_normalized=spec.rollout_normalized,
        measured=extras,
    )
