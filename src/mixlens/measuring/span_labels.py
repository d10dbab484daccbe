"""Name a span of targets by its text, and say which targets it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mixlens.contracts import Request
from mixlens.measures import span_definition
from mixlens.text.tokens import TokenRow

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording

_LONGEST = 60  # characters of a label
_MARKS = str.maketrans({"Ġ": " ", "▁": " ", "Ċ": " "})


def span_labels(recording: Recording, request: Request) -> list[str]:
    """Return the text of the span of each text of a batch."""
    assert request.targets is not None
    sampled_from = None if request.span is None else request.span.sampled_from
    return [
        _label(recording.named_targets(request.site, row), places)
        for row, places in enumerate(sampled_from or request.targets)
    ]


def _label(row: TokenRow, places: tuple[int, ...]) -> str:
    """Return the text of neighbouring targets, with an ellipsis for gaps."""
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


def describe_span(name: str, request: Request, row: int) -> dict[str, Any]:
    """Return the span of one text for the provenance of its maps; empty if there is none."""
    if request.span is None or request.targets is None:
        return {}
    span = request.span
    described: dict[str, Any] = {
        "definition": span_definition(name, span),
        "targets": list(request.targets[row]),
        "weights": list(span.weights[row]),
    }
    if span.sampled_from is not None:
        described["sampled_from"] = list(span.sampled_from[row])
    return {"span": described}
