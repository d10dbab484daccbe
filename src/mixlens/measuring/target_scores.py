"""The scores of a few targets, from one forward pass: each layer is measured as it goes by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mixlens.contracts import Request, Scores
from mixlens.errors import RowsUnavailable
from mixlens.measures import score_function
from mixlens.recording.few_targets import RowRecording

if TYPE_CHECKING:
    from mixlens.recording.layer import Layer


def row_scores(
    measures: Mapping[str, Mapping[str, Any]],
    rows: RowRecording,
    request: Request,
    refused: dict[str, str],
) -> dict[str, list[Scores]]:
    """The scores of each measure, layer by layer; `refused` takes up those that cannot be had."""
    parts: dict[str, list[Scores]] = {name: [] for name in measures if name not in refused}
    if not parts:
        return parts
    functions = {name: score_function(name, measures[name]) for name in parts}

    def visit(layer: Layer) -> None:
        if layer.index not in request.layers:
            return
        rows.at_hand = {layer.index: layer}
        asked = replace(request, layers=(layer.index,), alone_at=rows.places)
        for name in list(parts):
            try:
                parts[name].append(functions[name](rows, asked))
            except RowsUnavailable as error:
                refused[name] = str(error)
                del parts[name]
        if not parts:
            raise RowsUnavailable(refused[next(reversed(refused))])

    rows.visit(visit)
    return parts
