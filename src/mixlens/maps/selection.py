"""Select parts of maps: some layers, some targets, one head, or all heads merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from mixlens.errors import InvalidInput
from mixlens.maps.target_row import head_index, layer_index
from mixlens.text.tokens import listed, position_of, whole_numbers

if TYPE_CHECKING:
    from mixlens.maps.mixing_maps import MixingMaps


def select(
    maps: MixingMaps,
    layers: int | Sequence[int] | None,
    targets: int | str | Sequence[int | str] | None,
) -> MixingMaps:
    """Compute `MixingMaps.at`."""
    places = list(range(len(maps.layers)))
    numbers, named = whole_numbers(layers, "layers"), listed(targets, "targets")
    if numbers is not None:
        places = [layer_index(layer, maps.layers) for layer in numbers]
    held = maps.target_positions
    rows = list(range(len(held)))
    if named is not None:
        rows = [held.index(position_of(target, maps.target_row, held)) for target in named]

    def taken(values: np.ndarray, dims: tuple[str, ...]) -> np.ndarray:
        values = values.take(places, 0)
        return values.take(rows, dims.index("target")) if "target" in dims else values

    scores = taken(maps.scores, maps.dims)
    return replace(
        maps,
        scores=scores,
        facts=maps.facts.of(scores) if maps.facts.sums_vary else maps.facts,
        layers=tuple(maps.layers[place] for place in places),
        measured={
            name: replace(extra, values=taken(extra.values, extra.dims))
            for name, extra in maps.measured.items()
        },
        target_positions=tuple(held[row] for row in rows),
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
        raise InvalidInput(f"Unknown way to merge heads {how!r}. Choose mean, sum or max.")
    whole = maps.facts.rows_sum_to_one and how == "mean"
    facts = replace(maps.facts, rows_sum_to_one=whole, sums_vary=False)
    return maps.derived(getattr(maps.scores.astype(np.float64), how)(1), f"heads({how})", facts)


def _require_heads(maps: MixingMaps) -> None:
    if not maps.per_head:
        raise InvalidInput(
            "These maps have whole layers. Measure with per_head=True for single heads."
        )
