"""One row out of all layers: what a measure says about one target, as shares that add up to one in
absolute value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from mixlens.errors import InvalidInput

if TYPE_CHECKING:
    from mixlens.contracts import Spec
    from mixlens.maps import MixingMaps

AGGREGATES = ("mean", "rollout", "last")


def shares(values: Float[np.ndarray, "*rows source"]) -> Float[np.ndarray, "*rows source"]:
    """Rows divided by the sum of their sizes; signs stay, and a row of zeros too."""
    wide = values.astype(np.float64)
    sums = np.abs(wide).sum(-1, keepdims=True)
    parts: np.ndarray = np.divide(wide, sums, out=np.zeros_like(wide), where=sums > 0)
    return parts


def layer_rows(maps: MixingMaps, spec: Spec, target: int) -> Float[np.ndarray, "layer source"]:
    """The target's row in each layer, or the one row that the measure has there."""
    return shares(maps.row(target).scores if spec.gives == "maps" else maps.scores[:, 0])


def target_row(
    maps: MixingMaps, spec: Spec, target: int, aggregate: str | int = "rollout"
) -> Float[np.ndarray, " source"]:
    """The layers as one row: "mean" of the layers' shares, "rollout", "last", or a layer's number.

    Measures of the whole model (hidden token attribution, and those that give one row) have a
    single natural row and use that.
    """
    if isinstance(aggregate, str) and aggregate not in AGGREGATES:
        raise InvalidInput(
            f"aggregate {aggregate!r}: choose one of {', '.join(AGGREGATES)}, or a layer's number"
        )
    if spec.gives != "maps":
        return shares(maps.scores[0, 0] if spec.one_row == "first" else maps.scores[:, 0].sum(0))
    if maps.facts.reaches_input and aggregate in AGGREGATES:
        return shares(maps.row(target).scores[-1])
    if aggregate == "rollout":
        return shares(rolled_out_absolute(maps).row(target).scores[-1])
    rows = layer_rows(maps, spec, target)
    return shares(
        rows.mean(0) if aggregate == "mean" else rows[-1 if aggregate == "last" else int(aggregate)]
    )


def rolled_out_absolute(
    maps: MixingMaps, residual: float | int | None = None, normalise: bool | None = None
) -> MixingMaps:
    """`maps.rollout`, by the measure's own rule unless one is given. Of scores that have both
    signs, the sizes are taken.
    """
    return (maps.normalised(absolute=True) if maps.facts.signed else maps).rollout(
        residual, normalise
    )
