"""Select or merge parts of maps: layers, targets, heads, and the tokens of words or spans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.errors import InvalidInput
from mixlens.maps.segment_sums import has_sums
from mixlens.maps.target_row import head_index, layer_index
from mixlens.text import words
from mixlens.text.tokens import TokenRow, position_of, to_list, whole_numbers
from mixlens.text.words import Merge, Span

if TYPE_CHECKING:
    from mixlens.maps.mixing_maps import MixingMaps


def select(
    maps: MixingMaps,
    layers: int | Sequence[int] | None,
    targets: int | str | Sequence[int | str] | None,
) -> MixingMaps:
    """Compute `MixingMaps.at`."""
    places = list(range(len(maps.layers)))
    numbers, target_list = whole_numbers(layers, "layers"), to_list(targets, "targets")
    if numbers is not None:
        places = [layer_index(layer, maps.layers) for layer in numbers]
    positions = maps.target_positions
    indices = list(range(len(positions)))
    if target_list is not None:
        indices = [
            positions.index(position_of(target, maps.target_row, positions))
            for target in target_list
        ]

    def take_targets(values: np.ndarray, dims: tuple[str, ...]) -> np.ndarray:
        values = values.take(places, 0)
        return values.take(indices, dims.index("target")) if "target" in dims else values

    scores = take_targets(maps.scores, maps.dims)
    return replace(
        maps,
        scores=scores,
        facts=maps.facts.of(scores) if maps.facts.sums_vary else maps.facts,
        layers=tuple(maps.layers[place] for place in places),
        measured={
            name: replace(extra, values=take_targets(extra.values, extra.dims))
            for name, extra in maps.measured.items()
        },
        target_positions=tuple(positions[index] for index in indices),
    )


def one_head(maps: MixingMaps, number: int) -> MixingMaps:
    """Compute `MixingMaps.head`."""
    _require_heads(maps)
    index = head_index(number, maps.scores.shape[1])
    return maps.derived(maps.scores[:, index], f"head({index})")


def merge_heads(maps: MixingMaps, how: str) -> MixingMaps:
    """Compute `MixingMaps.heads`."""
    _require_heads(maps)
    if how not in ("mean", "sum", "max"):
        raise InvalidInput(f"Heads cannot be merged by {how!r}. Choose mean, sum or max.")
    whole = maps.facts.rows_sum_to_one and how == "mean"
    facts = replace(maps.facts, rows_sum_to_one=whole, sums_vary=False)
    return maps.derived(getattr(maps.scores.astype(np.float64), how)(1), f"heads({how})", facts)


def _require_heads(maps: MixingMaps) -> None:
    if not maps.per_head:
        raise InvalidInput(
            "These maps have no heads. Measure with per_head=True to get individual heads."
        )


def merge_words(maps: MixingMaps, sources: str, targets: str) -> MixingMaps:
    """Compute `MixingMaps.words`. Sources that are segments are not merged."""
    columns = _unmerged(maps.source_row) if has_sums(maps) else words.words(maps.source_row)
    targets_merge = words.words(maps.target_row)
    step = f"words(sources={sources}, targets={targets})"
    return _merge_axes(maps, columns, targets_merge, sources, targets, step)


def merge_spans(
    maps: MixingMaps,
    columns: Sequence[Span] | None,
    target_spans: Sequence[Span] | None,
    sources: str,
    targets: str,
) -> MixingMaps:
    """Compute `MixingMaps.spans`."""
    columns, target_spans = _span_list(columns), _span_list(target_spans)
    _require_measured(maps, target_spans or ())
    step = f"spans(sources={_listed(columns)}, targets={_listed(target_spans)})"
    merges = (
        words.spans(maps.source_row, columns or ()),
        words.spans(maps.target_row, target_spans or ()),
    )
    return _merge_axes(maps, *merges, sources, targets, step)


def _unmerged(row: TokenRow) -> Merge:
    return [(i, i + 1) for i in range(len(row))], row


def _require_measured(maps: MixingMaps, spans: Sequence[Span]) -> None:
    """Raise an error if a span of targets contains no measured target, because merging it would
    have no effect.
    """
    positions = maps.target_positions
    for start, stop in spans:
        if not any(start <= position < stop for position in positions):
            listed = ", ".join(map(str, positions[:20])) + ", …" * (len(positions) > 20)
            raise InvalidInput(
                f"The target span ({start}, {stop}) contains no measured target. These maps have "
                f"the target positions {listed}. Pass spans as positions in the text."
            )


def _span_list(spans: Any) -> list[Span] | None:
    if spans is None:
        return None
    return [words.as_span(span) for span in to_list(spans, "spans") or ()]


def _listed(spans: Sequence[Span] | None) -> list[list[int]] | None:
    return None if spans is None else [list(span) for span in spans]


def _merge_axes(
    maps: MixingMaps, columns: Merge, rows: Merge, sources: str, targets: str, step: str
) -> MixingMaps:
    scores = words.merge_groups(maps.scores, [range(a, b) for a, b in columns[0]], -1, sources)
    groups = [[i for i, at in enumerate(maps.target_positions) if a <= at < b] for a, b in rows[0]]
    positions = tuple(number for number, group in enumerate(groups) if group)
    scores = words.merge_groups(scores, [groups[number] for number in positions], -2, targets)
    sums_to_one = maps.facts.rows_sum_to_one and sources == "sum" and targets in ("mean", "first")
    vary = maps.facts.sums_vary and sources == "sum" and targets == "first"
    return maps.derived(
        scores,
        step,
        replace(maps.facts, rows_sum_to_one=sums_to_one, sums_vary=vary).of(scores),
        source_row=columns[1],
        target_row=rows[1],
        target_positions=positions,
    )
