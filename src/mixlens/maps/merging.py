"""Merge tokens into words or spans, along sources and targets of all maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mixlens.errors import InvalidInput
from mixlens.maps.segment_sums import has_sums
from mixlens.text import words
from mixlens.text.tokens import TokenRow
from mixlens.text.words import Merge, Span

if TYPE_CHECKING:
    from mixlens.maps.mixing_maps import MixingMaps


def merge_words(maps: MixingMaps, sources: str, targets: str) -> MixingMaps:
    """Compute `MixingMaps.words`. Segment sums have no words among their sources."""
    columns = _unmerged(maps.source_row) if has_sums(maps) else words.words(maps.source_row)
    rows = words.words(maps.target_row)
    step = f"words(sources={sources}, targets={targets})"
    return _merged(maps, columns, rows, sources, targets, step)


def merge_spans(
    maps: MixingMaps,
    columns: Sequence[Span] | None,
    rows: Sequence[Span] | None,
    sources: str,
    targets: str,
) -> MixingMaps:
    """Compute `MixingMaps.spans`."""
    _require_measured(maps, rows or ())
    step = f"spans(sources={_listed(columns)}, targets={_listed(rows)})"
    merges = words.spans(maps.source_row, columns or ()), words.spans(maps.target_row, rows or ())
    return _merged(maps, *merges, sources, targets, step)


def _unmerged(row: TokenRow) -> Merge:
    return [(i, i + 1) for i in range(len(row))], row


def _require_measured(maps: MixingMaps, rows: Sequence[Span]) -> None:
    """Raise if a span of targets contains no measured target, because it would change nothing."""
    held = maps.target_positions
    for start, stop in rows:
        if not any(start <= position < stop for position in held):
            shown = ", ".join(map(str, held[:20])) + ", …" * (len(held) > 20)
            raise InvalidInput(
                f"The target span ({start}, {stop}) holds no measured target. These maps have "
                f"the target positions {shown}. Pass spans as positions in the text."
            )


def _listed(spans: Sequence[Span] | None) -> list[list[int]] | None:
    return None if spans is None else [list(span) for span in spans]


def _merged(
    maps: MixingMaps, columns: Merge, rows: Merge, sources: str, targets: str, step: str
) -> MixingMaps:
    scores = words.merged(maps.scores, [range(a, b) for a, b in columns[0]], -1, sources)
    groups = [[i for i, at in enumerate(maps.target_positions) if a <= at < b] for a, b in rows[0]]
    held = tuple(number for number, group in enumerate(groups) if group)
    scores = words.merged(scores, [groups[number] for number in held], -2, targets)
    kept = maps.facts.rows_sum_to_one and sources == "sum" and targets in ("mean", "first")
    vary = maps.facts.sums_vary and sources == "sum" and targets == "first"
    return maps.derived(
        scores,
        step,
        replace(maps.facts, rows_sum_to_one=kept, sums_vary=vary).of(scores),
        source_row=columns[1],
        target_row=rows[1],
        target_positions=held,
    )
