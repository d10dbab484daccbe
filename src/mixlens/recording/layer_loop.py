"""The loop over layers: every measure scores a layer while it is available."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from mixlens.contracts import LayerScores, Request, Scores, Targets
from mixlens.errors import TargetsUnavailable
from mixlens.recording.span_scores import SpanPart

if TYPE_CHECKING:
    from mixlens.recording.attention import Attention
    from mixlens.recording.layer import Layer
    from mixlens.recording.recording import Recording

ScoreLayer = Callable[["Layer", "Attention", Targets], LayerScores | SpanPart]


def score_layers(
    measures: Mapping[str, ScoreLayer],
    recording: Recording,
    request: Request,
    refused: dict[str, str] | None = None,
) -> dict[str, Scores]:
    """Return the scores of every measure for the requested layers and targets.

    `refused` collects the measures that cannot score a few targets alone, with the reason. Without
    it, the first of them raises `TargetsUnavailable`.
    """
    parts: dict[str, dict[int, LayerScores]] = {name: {} for name in measures}
    spans: dict[tuple[str, int], SpanPart] = {}

    def finish_spans(but: int | None = None) -> None:
        """Score the spans of all layers but one, so that nothing else of a layer is kept."""
        for name, position in list(spans):
            if position != but:
                part = spans.pop((name, position))
                if name in parts:
                    parts[name][position] = part.finished()

    def visit(position: int, layer: Layer, targets: Targets) -> None:
        finish_spans(but=position)
        with layer.held():
            attention = layer.site(request.kind)
            for name in list(parts):
                try:
                    made = measures[name](layer, attention, targets)
                except TargetsUnavailable as error:
                    if refused is None:
                        raise
                    refused[name] = str(error)
                    del parts[name]
                    continue
                if isinstance(made, LayerScores):
                    parts[name][position] = made
                else:
                    before = spans.get((name, position))
                    spans[name, position] = made if before is None else before + made
        if not parts and refused:
            raise TargetsUnavailable(refused[next(reversed(refused))])

    recording.visit(request, visit)
    finish_spans()
    return {
        name: Scores.of_layers([scored[position] for position in request.layers])
        for name, scored in parts.items()
    }
