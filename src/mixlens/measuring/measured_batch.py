"""Scores of a batch of texts, and the maps of each text without padding. The label of a span is the
text of its targets, and the provenance lists the positions of these targets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from mixlens.contracts import AttentionKind, Facts, Request, Scores, Spec
from mixlens.contracts.scores import Extra, freeze
from mixlens.maps.mixing_maps import MixingMaps
from mixlens.maps.provenance import provenance_of
from mixlens.measures import span_definition
from mixlens.text.tokens import TokenRow

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording


@dataclass(frozen=True, kw_only=True)
class MeasuredBatch:
    """Scores of one measure for all texts of a recording, with padding."""

    name: str
    spec: Spec
    recording: Recording
    request: Request
    scores: Scores
    options: Mapping[str, Any]

    @property
    def layers(self) -> tuple[int, ...]:
        """Return the indices of the measured layers in the model."""
        numbers = self.scores.layers
        return tuple(self.request.numbers(self.recording) if numbers is None else numbers)

    @cached_property
    def facts(self) -> Facts:
        """Return the properties of the scores that hold for every text of the batch.

        These properties depend on the attention and the options. They do not apply to targets
        without scores.
        """
        facts = self.scores.known_facts(self.spec.facts)
        is_self = (
            self.request.kind == AttentionKind.SELF
        )  # a target of cross-attention is not a source
        has_tokens = self.scores.target_labels is None and self.scores.source_labels is None
        return replace(
            facts,
            residual_included=facts.residual_included and is_self,
            same_tokens=is_self and has_tokens,
        )

    def to(self, device: str | torch.device) -> MeasuredBatch:
        """Return the batch with its scores on a device. Scores that are already there are not
        copied.
        """
        return replace(self, scores=self.scores.to(device))

    def provenance(self) -> dict[str, Any]:
        """Return the provenance of the scores."""
        return provenance_of(self.name, self.spec, self.recording, self.request, self.options)

    def maps(self) -> list[MixingMaps]:
        """Return the maps of every text."""
        return [maps_of_text(self, text) for text in range(self.recording.rows(self.request.site))]


def maps_of_text(batch: MeasuredBatch, text: int) -> MixingMaps:
    """Return the maps of one text of a batch, without padding."""
    recording, request, scores, spec = batch.recording, batch.request, batch.scores, batch.spec
    targets, positions = target_tokens(recording, request, scores, text)
    sources = recording.source_tokens(request.site, text)
    if scores.source_labels is not None:
        sources = TokenRow(tuple(scores.source_labels[text]))
    sizes = {"target": len(positions), "source": len(sources)}
    extras = {}
    for key, tensor in scores.extras.items():
        dims = scores.extra_dims.get(key, tuple(f"{key}_{i}" for i in range(tensor.dim() - 2)))
        extras[key] = Extra(("layer", *dims), without_padding(tensor, text, dims, sizes))
    dims = ("head", "target", "source")[5 - scores.values.dim() :]
    text_scores = without_padding(scores.values, text, dims, sizes)
    return MixingMaps(
        scores=text_scores,
        layers=tuple(int(layer) for layer in batch.layers),
        target_row=targets,
        source_row=sources,
        target_positions=positions,
        facts=batch.facts.of(text_scores),
        provenance={**batch.provenance(), **describe_span(batch.name, request, text)},
        rollout_residual=spec.rollout_residual,
        rollout_normalised=spec.rollout_normalised,
        rollout_adds_identity=spec.rollout_adds_identity,
        measured=extras,
    )


def target_tokens(
    recording: Recording, request: Request, scores: Scores, text: int
) -> tuple[TokenRow, tuple[int, ...]]:
    """Return all targets of a text, and the positions of the measured targets.

    If the measure explains outputs, the outputs are the targets. Outputs are not tokens of the
    text, so they are marked as special and never merged into words.
    """
    if scores.target_labels is not None:
        count = int(scores.values.shape[-2])
        labels = list(scores.target_labels)
        if count == 1:  # one explained output for each text of the batch
            labels = [labels[text if len(labels) > 1 else 0]]
        return TokenRow(tuple(labels), special=(True,) * count), tuple(range(count))
    targets = recording.named_targets(request.site, text)
    return targets, (
        tuple(range(len(targets))) if request.targets is None else tuple(request.targets[text])
    )


def without_padding(
    tensor: Tensor, text: int, dims: Sequence[str], sizes: Mapping[str, int]
) -> np.ndarray:
    """Return one text of an array [layer, batch, *dims] as NumPy, without padding.

    Half-precision numbers are converted to float32.
    """
    index = (slice(None), text, *(slice(sizes.get(dim)) for dim in dims))
    values = tensor[index].detach()
    half = values.is_floating_point() and values.element_size() < 4
    kind = torch.empty(0, dtype=torch.float32 if half else values.dtype).numpy().dtype
    copy = np.empty(values.shape, kind)  # a view would keep the whole batch alive
    torch.from_numpy(copy).copy_(values)
    return freeze(copy)


_LONGEST = 60  # characters of a label
_MARKS = str.maketrans({"Ġ": " ", "▁": " ", "Ċ": " "})


def span_labels(recording: Recording, request: Request) -> list[str]:
    """Return the label of the span of each text in a batch."""
    assert request.targets is not None
    sampled_from = None if request.span is None else request.span.sampled_from
    return [
        span_label(recording.named_targets(request.site, text), places)
        for text, places in enumerate(sampled_from or request.targets)
    ]


def span_label(row: TokenRow, places: tuple[int, ...]) -> str:
    """Return the text of some targets, with an ellipsis for each gap between them."""
    runs: list[list[int]] = []
    for place in sorted(places):
        if runs and place == runs[-1][-1] + 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    label = " … ".join(_text(row, run) for run in runs)
    return label if len(label) <= _LONGEST else f"{label[: _LONGEST - 1].rstrip()}…"


def _text(row: TokenRow, run: list[int]) -> str:
    if row.text is not None and row.offsets is not None:
        start, stop = row.offsets[run[0]][0], max(row.offsets[place][1] for place in run)
        if row.text[start:stop].strip():
            return " ".join(row.text[start:stop].split())
    labels = [row.labels[place] for place in run]
    if row.text is None:  # numbers, or labels without a text
        return " ".join(labels)
    return "".join(label.translate(_MARKS) for label in labels).strip()


def describe_span(name: str, request: Request, text: int) -> dict[str, Any]:
    """Describe the span of one text for the provenance of its maps. The dict is empty without a
    span.
    """
    if request.span is None or request.targets is None:
        return {}
    span = request.span
    described: dict[str, Any] = {
        "definition": span_definition(name, span),
        "targets": list(request.targets[text]),
        "weights": list(span.weights[text]),
    }
    if span.sampled_from is not None:
        described["sampled_from"] = list(span.sampled_from[text])
    return {"span": described}
