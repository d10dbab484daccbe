"""Tokens merged into words or spans: columns (sources) and rows (targets) of all maps at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mixlens import words
from mixlens.words import Merge, Span

if TYPE_CHECKING:
    from mixlens.maps import MixingMaps


def merge_words(maps: MixingMaps, sources: str, targets: str) -> MixingMaps:
    """`MixingMaps.words`."""
    columns, rows = words.words(maps.source_row), words.words(maps.target_row)
    step = f"words(sources={sources}, targets={targets})"
    return _merged(maps, columns, rows, sources, targets, step)


def merge_spans(
    maps: MixingMaps,
    columns: Sequence[Span] | None,
    rows: Sequence[Span] | None,
    sources: str,
    targets: str,
) -> MixingMaps:
    """`MixingMaps.spans`."""
    step = f"spans(sources={_listed(columns)}, targets={_listed(rows)})"
    merges = words.spans(maps.source_row, columns or ()), words.spans(maps.target_row, rows or ())
    return _merged(maps, *merges, sources, targets, step)


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
