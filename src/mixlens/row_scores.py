"""The scores of a few targets, from one forward pass: each layer is measured as it goes by, or
several that are alike as one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mixlens.contracts import Request, Scores
from mixlens.errors import LookAgain, RowsUnavailable
from mixlens.measures import score_function, spec_of
from mixlens.recording.like_layers import LikeLayers, like_layers_at_once
from mixlens.recording.remembered import Remembered
from mixlens.recording.rows import RowRecording

if TYPE_CHECKING:
    from mixlens.recording.layer import Layer


def row_scores(
    measures: Mapping[str, Mapping[str, Any]],
    rows: RowRecording,
    request: Request,
    refused: dict[str, str],
) -> dict[str, list[Scores]]:
    """The scores of each measure, layer by layer; `refused` takes up those that cannot be had.

    If a pass has to be made again, layers are looked at one by one.
    """
    before = _passes.of(rows.model, (rows.site, frozenset(measures)), _EarlierPasses)
    plain = _may_be_joined(measures, request)
    rows.layers_at_once = like_layers_at_once(rows) if plain and before.all_well else 1
    again = False
    try:
        parts = _visited(measures, rows, request, refused)
    except LookAgain:
        again = True  # after this block, which holds the tensors of the first pass
    if again:
        joined = rows.layers_at_once > 1
        rows.patient, rows.layers_at_once = False, 1
        parts = _visited(measures, rows, request, refused)
        before.joined_in_vain |= joined  # not for a text that fails layer by layer too
    before.layer_by_layer |= plain
    return parts


def _visited(
    measures: Mapping[str, Mapping[str, Any]],
    rows: RowRecording,
    request: Request,
    refused: dict[str, str],
) -> dict[str, list[Scores]]:
    """The same by one pass."""
    parts: dict[str, list[Scores]] = {name: [] for name in measures if name not in refused}
    if not parts:
        return parts

    functions = {name: score_function(name, measures[name]) for name in parts}

    def visit(layer: Layer) -> None:
        if layer.index not in request.layers:
            return
        rows.at_hand = {layer.index: layer}
        given, asked = rows, replace(request, layers=(layer.index,), alone_at=rows.places)
        if isinstance(layer, LikeLayers):
            given, asked = rows.of_layers(layer.count), asked.of_layers(layer.count)
        for name in list(parts):
            try:
                scores = functions[name](given, asked)
                parts[name].append(scores if given is rows else scores.turned())
            except RowsUnavailable as error:
                if isinstance(error, LookAgain) or given is not rows:
                    raise LookAgain(str(error)) from error
                refused[name] = str(error)
                del parts[name]
        if not parts:
            raise RowsUnavailable(refused[next(reversed(refused))])

    rows.visit(visit)
    return parts


def _may_be_joined(measures: Mapping[str, Mapping[str, Any]], request: Request) -> bool:
    """May like layers be handed to these measures as one?"""
    plain = all(not options and spec_of(name).side_by_side for name, options in measures.items())
    return plain and not (request.per_head or request.layers_named)


@dataclass
class _EarlierPasses:
    """What earlier passes of the same measures through a model showed."""

    layer_by_layer: bool = False  # was there one? Then what is proved of a layer once is proved
    joined_in_vain: bool = False  # did a pass with several layers as one fail?

    @property
    def all_well(self) -> bool:
        """May layers be joined?"""
        return self.layer_by_layer and not self.joined_in_vain


_passes: Remembered[_EarlierPasses] = Remembered()
